// SPDX-License-Identifier: GPL-2.0

//! Tests of `loga place`.

use super::*;
use crate::fake::FakeKernel;
use crate::placing::tests::{claim_of_another, kernel};
use loga::uapi;
use serde_json::Value;

fn place_in(
    fake: &FakeKernel,
    line: &str,
    environment: &Environment,
) -> (String, Result<(), String>) {
    let line = format!("loga place {line}");
    let arguments = <cli::Arguments as clap::Parser>::parse_from(line.split_whitespace());
    let cli::Command::Place(arguments) = arguments.command else {
        panic!("not place: {line}");
    };
    let mut out = Vec::new();
    let result = run(&arguments, &Control::over(fake), environment, &mut out);
    let out = String::from_utf8(out).expect("text");
    (out, result.map_err(|failure| failure.to_string()))
}

fn place(fake: &FakeKernel, line: &str) -> (String, Result<(), String>) {
    let environment = Environment {
        proc: "/nowhere".into(),
        visible: None,
        order: None,
        cgroups: "/nowhere".into(),
        history: "/nowhere".into(),
        path: None,
    };
    place_in(fake, line, &environment)
}

fn object(fake: &FakeKernel, line: &str) -> Value {
    let (out, result) = place(fake, &format!("--json {line}"));
    assert_eq!(result, Ok(()));
    serde_json::from_str(&out).expect("JSON")
}

fn refused(line: &str) -> String {
    let line = format!("loga place {line}");
    let parsed = <cli::Arguments as clap::Parser>::try_parse_from(line.split_whitespace());
    cli::one_line(&parsed.expect_err("refused"))
}

#[test]
fn table_has_a_row_for_each_gpu_and_a_line_that_says_why() {
    let fake = kernel(&[100, 0, 30]);
    fake.gpus.borrow_mut()[1].info.flags = uapi::GPU_LOST;
    let (out, result) = place(&fake, "");
    assert_eq!(result, Ok(()));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 5, "{out}");
    let words = |at: usize| lines[at].split_whitespace().collect::<Vec<&str>>();
    let row = ["0", "0000:01:00.0", "1", "100", "%", "0", "0", "%", "1.00"];
    assert_eq!(words(1)[..9], row);
    assert_eq!(words(2)[9..], ["-", "-", "-", "-", "lost"]);
    assert_eq!(words(3).last(), Some(&"chosen"));
    assert!(lines[4].starts_with("GPU 2: added slowdown "), "{out}");
    assert!(
        lines[4].ends_with("; policy wait, for a program that wants 50 % (assumed)"),
        "{out}"
    );
}

#[test]
fn costs_are_in_the_unit_of_the_policy_that_decides() {
    let fake = kernel(&[60, 20]);
    let guf = object(&fake, "--policy guf --want 30");
    assert_eq!(guf["decided_by"], "guf");
    assert_eq!(guf["cost_unit"], "ratio");
    assert_eq!(guf["gpus"][0]["cost"], 0.9);
    assert_eq!(guf["gpus"][1]["cost"], 0.5);
    assert_eq!(guf["chosen"], serde_json::json!([1]));
    let gmin = object(&fake, "--policy gmin --count 2");
    assert_eq!(gmin["cost_unit"], "count");
    assert_eq!(gmin["gpus"][0]["cost"], 1.0);
    // The same for both: the one of which less is wanted is the first.
    assert_eq!(gmin["chosen"], serde_json::json!([1, 0]));
}

#[test]
fn terms_of_a_cost_are_shown_by_name_and_add_up() {
    let fake = kernel(&[60, 20]);
    let wait = object(&fake, "--want 30");
    for gpu in wait["gpus"].as_array().expect("GPUs") {
        let number = |value: &Value| value.as_f64().expect("a number");
        let terms = [&gpu["terms"]["own"], &gpu["terms"]["others"]].map(number);
        assert!((terms[0] + terms[1] - number(&gpu["cost"])).abs() < 1e-9);
        assert!(terms[0] >= 1.0, "{gpu}");
        assert!(terms[1] > 0.0, "{gpu}");
    }
    let guf = object(&fake, "--policy guf --want 30");
    assert_eq!(
        guf["gpus"][0]["terms"],
        serde_json::json!({"own": 0.3, "there": 0.6})
    );
    let gmin = object(&fake, "--policy gmin");
    assert_eq!(gmin["gpus"][0]["terms"], Value::Null);
    let (out, _) = place(&fake, "--want 30");
    let titles: Vec<&str> = out
        .lines()
        .next()
        .expect("titles")
        .split_whitespace()
        .collect();
    let ends = ["OTHERS", "OWN", "COST", "SLOWDOWN", "CHOICE"];
    assert_eq!(titles[titles.len() - 5..], ends, "{out}");
}

#[test]
fn clients_that_are_not_seen_are_named() {
    let fake = kernel(&[0, 0]);
    let one = crate::placing::tests::client(7, 20);
    fake.gpus.borrow_mut()[1].hidden = vec![one; 3];
    let (out, _) = place(&fake, "");
    let line = "GPU 1: 3 clients of other users count by the mean of what they want together";
    assert!(out.lines().any(|one| one == line), "{out}");
}

#[test]
fn policy_that_has_to_know_more_is_replaced_and_that_is_said() {
    let fake = kernel(&[60, 0]);
    let guf = object(&fake, "--policy guf");
    assert_eq!(
        (&guf["policy"], &guf["decided_by"]),
        (&"guf".into(), &"gwtmin".into())
    );
    let (out, _) = place(&fake, "--policy rtf --want 20");
    assert!(
        out.contains("; policy gwtmin, since rtf has to know more of the program"),
        "{out}"
    );
}

#[test]
fn claims_and_clients_that_are_not_seen_are_shown_and_count() {
    let fake = kernel(&[0, 0]);
    {
        claim_of_another(&fake, 200, 0, 50);
        claim_of_another(&fake, 201, 0, 30);
        let one = crate::placing::tests::client(7, 20);
        fake.gpus.borrow_mut()[0].hidden = vec![one; 3];
    }
    let choice = object(&fake, "");
    let first = &choice["gpus"][0];
    assert_eq!(
        (&first["claims"], &first["claimed_pct"]),
        (&2.into(), &80.into())
    );
    assert_eq!(
        (&first["clients"], &first["unseen"]),
        (&0.into(), &3.into())
    );
    assert_eq!(choice["chosen"], serde_json::json!([1]));
    let gmin = object(&fake, "--policy gmin");
    assert_eq!(gmin["gpus"][0]["cost"], 5.0);
}

#[test]
fn what_is_wrong_is_refused_with_what_would_be_right() {
    let fake = kernel(&[0, 0]);
    let said = |line: &str| place(&fake, line).1.expect_err(line);
    assert_eq!(
        said("--among 1,2"),
        "--among: there is no GPU 2: want 0 to 1"
    );
    assert_eq!(
        said("--speeds 1"),
        "--speeds: want one for each of 2 GPUs, not 1"
    );
    assert!(said("--count 3").starts_with("want 3 GPUs, but only 2"));
    let text = refused("--policy best");
    assert!(text.contains("wait, grr, gmin"), "{text}");
    assert!(refused("--want 0").ends_with("percent from 1 to 100"));
    assert!(refused("--speeds 1,0").contains("--speeds 0: want speeds from"));
    assert!(refused("--explain 3 --want 30").contains("cannot be used with"));
}

#[test]
fn environment_of_the_caller_limits_the_choice_and_the_table_says_so() {
    let fake = kernel(&[0, 50]);
    let environment = Environment {
        proc: "/nowhere".into(),
        visible: Some("1".into()),
        order: Some("PCI_BUS_ID".into()),
        cgroups: "/nowhere".into(),
        history: "/nowhere".into(),
        path: None,
    };
    let (out, result) = place_in(&fake, "", &environment);
    assert_eq!(result, Ok(()));
    assert!(out.contains("not in CUDA_VISIBLE_DEVICES"), "{out}");
    assert!(out.contains("\nGPU 1: added slowdown"), "{out}");
    let (out, result) = place_in(&fake, "--among 0", &environment);
    let said = "no GPU may be chosen: GPU 0 not in CUDA_VISIBLE_DEVICES, GPU 1 not in --among";
    assert_eq!(result, Err(said.to_string()));
    assert!(out.contains("CHOICE"), "{out}");
}

#[test]
fn choice_is_explained_by_what_it_cost_and_by_what_is_expected() {
    let fake = kernel(&[40, 0]);
    {
        let gpu = &mut fake.gpus.borrow_mut()[0];
        gpu.info.now_ns = 12_000_000_000;
        gpu.clients.push(uapi::Client {
            since_ns: 2_000_000_000,
            waited_ns: 4_000_000_000,
            waited_30s_ppm: 400_000,
            ..crate::placing::tests::client(7, 60)
        });
    }
    let explained = object(&fake, "--explain 7");
    assert_eq!(explained["gpu"], 0);
    assert_eq!(explained["want_pct"], 100.0);
    assert_eq!(explained["there_ns"], 10_000_000_000u64);
    assert_eq!(explained["waited"], 0.4);
    let slowdown = explained["slowdown"].as_f64().expect("a number");
    assert!((slowdown - 1.0 / 0.6).abs() < 1e-9, "{slowdown}");
    // 0.4 are left to the other, and 0.6 to it: by max-min, without its own load twice.
    let expected = explained["expected"].as_f64().expect("a number");
    assert!((expected - 1.0 / 0.6).abs() < 0.01, "{expected}");
    assert_eq!(explained["other"]["gpu"], 1);
    assert_eq!(explained["other"]["expected"], 1.0);
    let (out, _) = place(&fake, "--explain 7");
    assert!(
        out.contains("waited 4000.0 ms of the 10.0 s since it began (40.0 %)"),
        "{out}"
    );
    assert!(
        out.contains("expected now: 1.67 here, 1.00 on GPU 1"),
        "{out}"
    );
    // What it copies is its own, and no program's beside it.
    {
        let gpu = &mut fake.gpus.borrow_mut()[0];
        gpu.clients[1].copy_30s_ppm = 900_000;
    }
    let copies = object(&fake, "--explain 7")["expected"].as_f64();
    assert!(
        (copies.expect("a number") - expected).abs() < 0.01,
        "{copies:?}"
    );
    // A client that wants 20 %, with commands of 100 us. Each waits for 0.4 of the half of those of
    // the other. A user that sees its own client only has the rest of the sums, and those are
    // assumed to take 500 us.
    let expected = || {
        let explained = object(&fake, "--explain 7");
        explained["expected"].as_f64().expect("a number")
    };
    fake.gpus.borrow_mut()[0].clients[1] = crate::placing::tests::client(7, 20);
    let seen = expected();
    assert!((seen - 1.04).abs() < 0.001, "{seen}");
    {
        let gpu = &mut fake.gpus.borrow_mut()[0];
        gpu.hidden = gpu.clients.extract_if(.., |one| one.pid != 7).collect();
    }
    let hidden = expected();
    assert!((hidden - 1.2).abs() < 0.001, "{hidden}");
    let said = place(&fake, "--explain 8").1.expect_err("no such client");
    assert!(said.starts_with("process 8 uses no GPU"), "{said}");
    let (out, result) = place(&fake, "--explain 7 --among 0");
    assert_eq!(result, Ok(()));
    assert!(out.ends_with("there is no other GPU\n"), "{out}");
}

#[test]
fn server_of_mps_is_one_client_and_marked() {
    let fake = kernel(&[80, 10]);
    let folder = crate::mps::tests::proc(&[(101, "/usr/bin/nvidia-cuda-mps-server")]);
    let environment = Environment {
        proc: folder.path().to_path_buf(),
        visible: None,
        order: None,
        cgroups: "/nowhere".into(),
        history: "/nowhere".into(),
        path: None,
    };
    let before = object(&fake, "");
    {
        let client = &mut fake.gpus.borrow_mut()[0].clients[0];
        crate::mps::tests::command(client, "nvidia-cuda-mps-server");
    }
    let (out, result) = place_in(&fake, "--json", &environment);
    assert_eq!(result, Ok(()));
    let choice: Value = serde_json::from_str(&out).expect("JSON");
    let servers = |at: usize| choice["gpus"][at]["mps_servers"].clone();
    assert_eq!(
        [servers(0), servers(1)],
        [serde_json::json!([101]), serde_json::json!([])]
    );
    // As any other client of its want.
    for at in 0..2 {
        assert_eq!(choice["gpus"][at]["cost"], before["gpus"][at]["cost"]);
        assert_eq!(choice["gpus"][at]["clients"], 1);
    }
    let (out, _) = place_in(&fake, "", &environment);
    let line = "GPU 0: all programs of MPS server 101 count as one client\n";
    assert!(out.contains(line), "{out}");
    let (out, _) = place_in(&fake, "--explain 101", &environment);
    let end = "; it is an MPS server: this is about all its programs together\n";
    assert!(out.ends_with(end), "{out}");
    let said = place_in(&fake, "--explain 5", &environment).1;
    assert!(said
        .expect_err("none")
        .ends_with(", or is behind MPS server 101"));
}

#[test]
fn snapshot_is_a_file_of_the_caller_from_which_the_simulator_chooses_the_same() {
    let fake = kernel(&[60, 20]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("choice.toml");
    let line = format!("--want 30 --snapshot {}", path.display());
    let said = object(&fake, &line);
    let recorded = loga_eval::recorded::read(&path).expect("a file that makes sense");
    let again = recorded.choose(None);
    assert_eq!(said["chosen"], serde_json::json!(again.chosen));
    let mode = std::fs::metadata(&path).expect("a file").permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );
    let (_, result) = place(&fake, "--snapshot /nonexistent/choice.toml");
    let said = result.expect_err("no folder");
    assert!(said.starts_with("/nonexistent/choice.toml: "), "{said}");
    assert!(refused("--explain 3 --snapshot x").contains("cannot be used with"));
}
