// SPDX-License-Identifier: GPL-2.0

//! What is installed: which files, whether systemd takes the units, and whether the dashboard and
//! the alerts use metrics that exist.

use loga_cli::export::metrics::METRICS;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LOGA: &str = env!("CARGO_BIN_EXE_loga");
/// TIMEOUT: ends a test that hangs; nothing takes as long, however busy the machine is.
const HANGS: Duration = Duration::from_secs(300);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// A folder with programs, pages and completions, and one to install into.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().expect("a folder"));
        let programs = tree.path("programs");
        fs::create_dir(&programs).expect("a folder");
        for name in ["loga", "throttle"] {
            let file = programs.join(name);
            fs::write(&file, "#!/bin/true\n").expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        for what in ["man", "completions"] {
            let folder = tree.path("generated").join(what);
            let run = Command::new(LOGA)
                .args(["generate", what])
                .arg(folder)
                .status();
            assert!(run.expect("runs").success());
        }
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn act(&self, what: &str, prefix: &str) -> Output {
        let script = Command::new(root().join("packaging/install"))
            .arg(what)
            .env("DESTDIR", self.path("into"))
            .env("PREFIX", prefix)
            .env("SYSCONFDIR", "/etc")
            .env("PROGRAMS", self.path("programs"))
            .env("GENERATED", self.path("generated"))
            .output();
        let output = script.expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{what}: {said}");
        output
    }

    /// Files that were installed, below the folder.
    fn installed(&self) -> BTreeSet<String> {
        let into = self.path("into");
        let mut ahead = vec![into.clone()];
        let mut found = BTreeSet::new();
        while let Some(folder) = ahead.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    ahead.push(path);
                } else {
                    let name = path.strip_prefix(&into).expect("below").display();
                    found.insert(format!("/{name}"));
                }
            }
        }
        found
    }
}

/// What belongs on a machine, without the pages of the commands.
const FILES: &[&str] = &[
    "/etc/loga/loga.toml",
    "/usr/bin/loga",
    "/usr/bin/throttle",
    "/usr/lib/modprobe.d/loga.conf",
    "/usr/lib/systemd/system/loga-agent.service",
    "/usr/lib/systemd/system/loga-settings.service",
    "/usr/lib/systemd/system/loga-specs.service",
    "/usr/lib/systemd/system/loga.service",
    "/usr/lib/sysusers.d/loga.conf",
    "/usr/share/bash-completion/completions/loga",
    "/usr/share/fish/vendor_completions.d/loga.fish",
    "/usr/share/loga/grafana/loga.json",
    "/usr/share/loga/prometheus/loga.rules.yml",
    "/usr/share/zsh/site-functions/_loga",
];

#[test]
fn install_puts_the_listed_files_and_no_others() {
    let tree = Tree::new();
    tree.act("install", "/usr");
    let (pages, files): (BTreeSet<String>, BTreeSet<String>) = tree
        .installed()
        .into_iter()
        .partition(|path| path.starts_with("/usr/share/man/man1/"));
    assert_eq!(files, FILES.iter().map(|path| path.to_string()).collect());
    for page in ["loga.1", "loga-apply.1", "loga-agent-serve.1"] {
        assert!(
            pages.contains(&format!("/usr/share/man/man1/{page}")),
            "{page}: {pages:?}"
        );
    }
    let listed = String::from_utf8(tree.act("list", "/usr").stdout).expect("text");
    let listed: BTreeSet<String> = listed.lines().map(str::to_string).collect();
    assert_eq!(listed, pages.union(&files).cloned().collect());
    let program = fs::metadata(tree.path("into/usr/bin/loga")).expect("a program");
    assert_eq!(program.permissions().mode() & 0o777, 0o755);
}

#[test]
fn settings_of_the_machine_outlive_install_and_uninstall() {
    let tree = Tree::new();
    tree.act("install", "/usr/local");
    let settings = tree.path("into/etc/loga/loga.toml");
    fs::write(&settings, "[knobs]\nratio = 7\n").expect("a file");
    tree.act("install", "/usr/local");
    assert_eq!(
        fs::read_to_string(&settings).expect("a file"),
        "[knobs]\nratio = 7\n"
    );
    tree.act("uninstall", "/usr/local");
    assert_eq!(
        tree.installed(),
        BTreeSet::from(["/etc/loga/loga.toml".to_string()])
    );
    fs::remove_file(settings).expect("a file");
    tree.act("install", "/usr/local");
    tree.act("uninstall", "/usr/local");
    assert_eq!(tree.installed(), BTreeSet::new());
}

#[test]
fn units_name_the_program_where_it_is_and_systemd_takes_them() {
    let tree = Tree::new();
    tree.act("install", "/usr/local");
    let folder = tree.path("into/usr/local/lib/systemd/system");
    let mut units = Vec::new();
    for name in ["loga", "loga-agent", "loga-settings", "loga-specs"] {
        let path = folder.join(format!("{name}.service"));
        let unit = fs::read_to_string(&path).expect(name);
        assert!(!unit.contains("@BINDIR@"), "{name}");
        if name != "loga" {
            assert!(unit.contains("\nExecStart=/usr/local/bin/loga "), "{unit}");
            // For the check below, programs are where this machine has them.
            fs::write(
                &path,
                unit.replace("=/usr/local/bin/loga ", &format!("={LOGA} ")),
            )
            .expect(name);
        }
        units.push(path);
    }
    // That of a controller is installed by hand.
    let table = folder.join("loga-slurm-table.service");
    let unit = text("packaging/slurm/loga-slurm-table.service");
    fs::write(
        &table,
        unit.replace("=/usr/local/bin/loga ", &format!("={LOGA} ")),
    )
    .expect("a unit");
    units.push(table);
    let check = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args(&units)
        .output();
    let Ok(check) = check else {
        eprintln!("systemd-analyze is not there: units are not verified");
        return;
    };
    let said = String::from_utf8_lossy(&check.stderr);
    // Of its own units the machine may say what it likes; modprobe need not be installed.
    let ours = |line: &&str| line.contains("loga") && !line.contains("/sbin/");
    let wrong: Vec<&str> = said.lines().filter(ours).collect();
    assert!(wrong.is_empty(), "{said}");
}

#[test]
fn driver_is_never_told_to_load_loga() {
    let text = text("packaging/loga.modprobe");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    assert_eq!(lines, ["softdep loga pre: nvidia"]);
}

/// Slurm waits for its scripts without a bound of its own.
#[test]
fn scripts_of_slurm_end_well_when_loga_and_the_log_hang() {
    let tree = tempfile::tempdir().expect("a folder");
    let program = |name: &str, text: &str| {
        let path = tree.path().join(name);
        fs::write(&path, text).expect(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect(name);
        path
    };
    for name in ["loga", "logger"] {
        program(name, "#!/bin/sh\nexec sleep 1000\n");
    }
    let found = format!("PATH={}:/usr/local/sbin", tree.path().display());
    let script = |name: &str| {
        let script = text(&format!("packaging/slurm/{name}"));
        script.replace("PATH=/usr/local/sbin", &found)
    };
    for name in ["prolog.sh", "task_prolog.sh", "task_epilog.sh", "epilog.sh"] {
        let script = script(name);
        // In seconds: as short as the bounds of a test have to be.
        let script = script.replace("-k 1 20 loga", "-k 1 0.2 loga");
        let script = script.replace("-k 1 25 logger", "-k 1 0.4 logger");
        let script = script.replace("-k 1 5 loga", "-k 1 0.2 loga");
        let script = script.replace("-k 1 7 logger", "-k 1 0.4 logger");
        // Far less than the programs sleep.
        let mut run = Command::new("timeout");
        let run = run
            .arg(HANGS.as_secs().to_string())
            .arg(program(name, &script))
            .status();
        assert!(run.expect(name).success(), "{name}");
    }
    // Slurm takes what the program prints, and nothing of what it says.
    program("loga", "#!/bin/sh\necho \"export A=$*\"\necho said >&2\n");
    program(
        "logger",
        &format!("#!/bin/sh\ncat > {}\n", tree.path().join("log").display()),
    );
    // As long as a machine may take that is busy.
    let mut patient = script("task_prolog.sh");
    for bound in [
        "-k 1 20 loga",
        "-k 1 25 logger",
        "-k 1 5 loga",
        "-k 1 7 logger",
    ] {
        let program = bound.rsplit(' ').next().expect("a program");
        patient = patient.replace(bound, &format!("-k 1 300 {program}"));
    }
    let output = Command::new(program("task_prolog.sh", &patient)).output();
    let output = output.expect("runs");
    assert_eq!(output.stdout, b"export A=slurm task-prolog\n");
    let log = fs::read_to_string(tree.path().join("log"));
    assert_eq!(log.expect("a log"), "said\n");
}

/// Names of metrics in an expression.
fn metrics(expression: &str) -> Vec<&str> {
    let words = expression.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '"'));
    words.filter(|word| word.starts_with("loga_")).collect()
}

/// Names of labels in the selectors of an expression.
fn labels(expression: &str) -> Vec<&str> {
    let selectors = expression
        .split('{')
        .skip(1)
        .filter_map(|part| part.split('}').next());
    let pairs = selectors.flat_map(|selector| selector.split(", "));
    pairs
        .filter_map(|pair| pair.split(['=', '!']).next())
        .map(str::trim)
        .collect()
}

/// Asserts that an expression uses what the exporter prints.
fn assert_known(expression: &str) {
    let page = text("docs/monitoring.md");
    let rows = page
        .split("## Labels")
        .nth(1)
        .and_then(|part| part.split("\n## ").next())
        .expect("labels");
    let cells = rows
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let known: BTreeSet<&str> = cells.flat_map(|cell| cell.split(['`', ',', ' '])).collect();
    let used = metrics(expression);
    assert!(!used.is_empty(), "{expression}");
    for name in used {
        assert!(
            METRICS.iter().any(|metric| metric.name == name),
            "{name}: {expression}"
        );
    }
    for label in labels(expression) {
        assert!(
            label == "instance" || known.contains(label),
            "{label}: {expression}"
        );
    }
}

#[test]
fn alerts_use_metrics_that_the_exporter_prints() {
    let text = text("packaging/prometheus/loga.rules.yml");
    let mut names = BTreeSet::new();
    for rule in text.split("- alert: ").skip(1) {
        let name = rule.lines().next().expect("a name");
        assert!(names.insert(name.to_string()), "twice: {name}");
        let expression = rule.split("expr: ").nth(1).expect(name);
        let end = ["\n        for:", "\n        labels:"]
            .iter()
            .filter_map(|end| expression.find(end))
            .min();
        assert_known(&expression[..end.expect(name)]);
        assert!(rule.contains("summary: "), "{name}");
    }
    let wanted = [
        "LogaDown",
        "LogaFallbacks",
        "LogaUnknownTime",
        "LogaWaitedOverEntitled",
        "LogaEvasions",
        "LogaUnmanagedMappings",
    ];
    for name in wanted {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn dashboard_has_the_fields_of_grafana_and_uses_metrics_that_exist() {
    let board: Value = serde_json::from_str(&text("packaging/grafana/loga.json")).expect("JSON");
    let input = &board["__inputs"][0];
    assert_eq!(
        (&input["name"], &input["type"], &input["pluginId"]),
        (
            &"DS_PROMETHEUS".into(),
            &"datasource".into(),
            &"prometheus".into()
        )
    );
    assert!(board["schemaVersion"].as_u64().expect("a number") >= 36);
    for text in ["uid", "title"] {
        assert!(!board[text].as_str().expect(text).is_empty());
    }
    let variables = board["templating"]["list"].as_array().expect("variables");
    let names: Vec<&str> = variables
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["instance", "gpu"]);
    for variable in variables {
        assert_eq!(variable["type"], "query");
        assert_known(variable["query"]["query"].as_str().expect("a query"));
    }
    let panels = board["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    let mut places = Vec::new();
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64().expect(title)), "{title}");
        assert!(panel["type"].is_string(), "{title}");
        assert!(panel["fieldConfig"]["defaults"].is_object(), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${DS_PROMETHEUS}", "{title}");
        let place = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().expect(title));
        let [x, y, w, h] = place;
        assert!(x + w <= 24, "{title}");
        assert!(w > 0, "{title}");
        assert!(h > 0, "{title}");
        let apart =
            |[a, b, c, d]: &[u64; 4]| a + c <= x || x + w <= *a || b + d <= y || y + h <= *b;
        assert!(places.iter().all(apart), "{title} covers another");
        places.push(place);
        let mut refs = BTreeSet::new();
        for target in panel["targets"].as_array().expect(title) {
            assert!(
                refs.insert(target["refId"].as_str().expect(title)),
                "{title}"
            );
            assert_known(target["expr"].as_str().expect(title));
        }
        assert!(!refs.is_empty(), "{title}");
    }
}

#[test]
fn example_settings_are_right_when_they_are_uncommented() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        let run = Command::new(LOGA)
            .args(["apply", "--check"])
            .arg(path)
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{name}: {said}");
        String::from_utf8(run.stdout).expect("text")
    };
    let example = text("packaging/loga.toml");
    assert_eq!(check("as-it-is", &example), "right: 0 knobs, 0 shares\n");
    // Sentences have a space after their mark, settings have none.
    let bare: Vec<&str> = example
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(line) if !line.starts_with(' ') => line,
            _ => line,
        })
        .collect();
    let known = |text: &str| text.replace("\"ann\"", "0");
    assert_eq!(
        check("bare", &known(&bare.join("\n"))),
        "right: 4 knobs, 3 shares\n"
    );
    let page = text("docs/settings.md");
    let block = page
        .split("```toml\n")
        .nth(1)
        .and_then(|part| part.split("```").next());
    assert_eq!(
        check("page", &known(block.expect("an example"))),
        "right: 4 knobs, 4 shares\n"
    );
}

#[test]
fn agent_answers_also_without_the_module() {
    let mut agent = Command::new(LOGA)
        .args(["agent", "serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut line = String::new();
    // The pipe is closed after its first line, as a log daemon may go away.
    let read = BufReader::new(agent.stdout.take().expect("a pipe")).read_line(&mut line);
    let address = line
        .trim()
        .strip_prefix("http://")
        .and_then(|rest| rest.strip_suffix("/metrics"));
    let ask = || {
        let mut stream = TcpStream::connect(address.unwrap_or_default())?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    let begin = Instant::now();
    let answer = read.and_then(|_| loop {
        // It hangs up on a caller that gets no processor for seconds.
        match ask() {
            Ok(answer) if !answer.is_empty() => break Ok(answer),
            failed if begin.elapsed() > HANGS => break failed,
            _ => {}
        }
    });
    agent.kill().expect("killed");
    agent.wait().expect("ended");
    let answer = answer.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\nloga_up "), "{answer}");
}
