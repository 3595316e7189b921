// SPDX-License-Identifier: GPL-2.0

//! The command line of `loga-sim`: what it prints, writes, and returns.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn scenario(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    path.join(name).display().to_string()
}

fn sim(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_loga-sim"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that refuses its arguments reads nothing.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn run_with_the_same_seed_prints_the_same_bytes() {
    let demo = scenario("demo.toml");
    let args = ["run", &demo, "--set", "length_ms=500", "--json"];
    let (one, other) = (sim(&args, ""), sim(&args, ""));
    assert!(one.status.success(), "{}", text(&one.stderr));
    assert_eq!(one.stdout, other.stdout);
    let json: serde_json::Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(json["policy"], "event");
    assert_eq!(json["runs"][0]["gpus"][0]["clients"][0]["name"], "hog");
}

#[test]
fn run_with_several_seeds_prints_mean_and_deviation() {
    let demo = scenario("demo.toml");
    let kernel = "client.hog.phase.0.kernel_us={ exponential = 500 }";
    let changes = ["--set", kernel, "--set", "length_ms=500"];
    let out = sim(
        &[&["run", &demo, "--seeds", "3"][..], &changes].concat(),
        "",
    );
    let printed = text(&out.stdout);
    let title = "3 runs, mean +- standard deviation";
    assert!(printed.contains(title), "{printed}");
    assert!(!printed.contains("hog      0.00"), "{printed}");
}

#[test]
fn run_under_a_policy_of_the_command_line_uses_it() {
    let demo = scenario("demo.toml");
    let out = sim(&["run", &demo, "--policy", "hardware", "--json"], "");
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["policy"], "hardware");
    assert_eq!(json["runs"][0]["gpus"][0]["throttles"], 0);
}

#[test]
fn run_of_what_makes_no_sense_exits_with_2_and_says_where() {
    let demo = scenario("demo.toml");
    for (args, reason) in [
        ("run /nonexistent.toml", "/nonexistent.toml: "),
        (
            "run DEMO --policy fifo",
            r#"unknown policy "fifo", want one of"#,
        ),
        (
            "run DEMO --seeds 0",
            "seeds = 0 is out of range, want 1 to 10000",
        ),
        (
            "paper 12",
            r#"no experiment "12", want one of 7a, 7b, 8, 9, 10, 11, 5.6"#,
        ),
        ("replay -", "--policy"),
        ("replay - --policy hardware", "want one of maxmin, event"),
        ("replay /nonexistent --policy event", "/nonexistent: "),
    ] {
        let words = args.split(' ').map(|word| word.replace("DEMO", &demo));
        let words: Vec<_> = words.collect();
        let out = sim(&words.iter().map(String::as_str).collect::<Vec<_>>(), "");
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(out.stdout.is_empty());
        let message = text(&out.stderr);
        assert!(message.contains(reason), "{args:?}: {message}");
    }
}

#[test]
fn trace_is_one_json_document_whose_commands_do_not_overlap() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.json");
    let path = path.display().to_string();
    let demo = scenario("demo.toml");
    let out = sim(
        &["run", &demo, "--set", "length_ms=3000", "--trace", &path],
        "",
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let row = |number: u64| {
        events
            .iter()
            .filter(move |event| event["ph"] == "X" && event["tid"] == number)
    };
    let mut last = 0.0;
    for event in row(1) {
        let (start, length) = (
            event["ts"].as_f64().unwrap(),
            event["dur"].as_f64().unwrap(),
        );
        assert!(start >= last - 1e-6, "{event}");
        last = start + length;
    }
    assert!(last > 2_900_000.0);
    // Polling phases of 48 ms, and the hog throttled.
    let poll = row(10).next().unwrap();
    assert!(
        (poll["dur"].as_f64().unwrap() - 48_000.0).abs() < 10.0,
        "{poll}"
    );
    assert!(row(100).count() > 0);
}

#[test]
fn trace_on_a_full_disk_is_an_error() {
    let demo = scenario("demo.toml");
    let out = sim(&["run", &demo, "--trace", "/dev/full"], "");
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stderr).contains("No space left"),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn replay_answers_each_line_of_standard_input_as_it_comes() {
    use std::io::{BufRead, BufReader};
    let mut child = Command::new(env!("CARGO_BIN_EXE_loga-sim"))
        .args(["replay", "-", "--policy", "event"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let line = r#"{"t_poll_ns":12000000,"t_nonpoll_ns":60000000,"clients":[{"id":1,"busy_ns":9000000,"weight":100},{"id":2,"busy_ns":0,"weight":100}]}"#;
    for _ in 0..2 {
        writeln!(stdin, "{line}").unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        assert!(answer.starts_with("{\"t_sys_ns\":"), "{answer}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn replay_of_a_bad_line_names_it() {
    let good = r#"{"t_poll_ns":1,"t_nonpoll_ns":5,"clients":[]}"#;
    let out = sim(
        &["replay", "-", "--policy", "event"],
        &format!("{good}\nno\n"),
    );
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(text(&out.stdout), "{\"t_sys_ns\":0,\"clients\":[]}\n");
    assert!(
        text(&out.stderr).starts_with("loga-sim: -:2: "),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn table_of_an_ideal_gpu_refuses_a_setting_that_is_out_of_range() {
    let table = sim(
        &["ref", "--seconds", "1", "--scale", "active", "--randomize"],
        "",
    );
    let printed = text(&table.stdout);
    assert!(printed.starts_with("Shares of 1 s in percent"), "{printed}");
    for (args, reason) in [
        (["ref", "--poll-ms", "0"], "poll_ms=0"),
        (["ref", "--scale", "tea"], "tea"),
        (["accuracy", "--windows", "1"], "1 is not in 20"),
    ] {
        let refused = sim(&args, "");
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn compare_prints_a_row_for_each_policy_and_draws_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("compare.svg");
    let svg = path.display().to_string();
    let demo = scenario("demo.toml");
    let length = "length_ms=3000";
    let args = ["compare", &demo, "--set", length, "--svg", &svg, "--json"];
    let out = sim(&args, "");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let row = |policy: &str| {
        let rows = json["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["policy"] == policy);
        row.unwrap_or_else(|| panic!("no row {policy}")).clone()
    };
    let mean = |policy: &str, figure: &str| row(policy)[figure]["mean"].as_f64().unwrap();
    // The hog wants all, three want 20 % each: 40, 20, 20, 20; the hardware gives 62.5, 3 x 12.5.
    let fair = json["fair_pct"][0][1].as_f64().unwrap();
    assert!((fair - 40.0).abs() < 0.1, "{fair}");
    assert!((mean("hardware", "worst") - 0.625).abs() < 0.01);
    assert!((mean("hardware", "overhead_pct")).abs() < 1e-9);
    assert!(mean("event", "fairness") > mean("hardware", "fairness"));
    assert!(mean("event", "overhead_pct") > 10.0);
    let picture = std::fs::read_to_string(&path).unwrap();
    for policy in [
        "event",
        "none",
        "hardware",
        "per-command",
        "exclusive",
        "gvim-rr",
        "gvim-xc",
        "ps",
        "las-epoch",
        "token-bucket",
    ] {
        assert!(picture.contains(policy), "{policy}");
    }
    assert!(picture.starts_with("<svg"));
    assert!(picture.trim_end().ends_with("</svg>"));
}

#[test]
fn compare_that_cannot_write_leaves_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("compare.svg");
    std::fs::write(&path, "earlier").unwrap();
    // Where the new picture would be written first, there is a directory.
    std::fs::create_dir(directory.path().join("compare.svg.part")).unwrap();
    let svg = path.display().to_string();
    let demo = scenario("demo.toml");
    let args = ["compare", &demo, "--policies", "hardware", "--svg", &svg];
    let out = sim(&args, "");
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stderr).contains("compare.svg"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "earlier");
}
