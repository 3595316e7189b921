// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Hostile names of processes, users and cgroups, through every command that prints them.

use super::*;
use crate::cli;
use crate::control::Control;
use crate::directory::Directory;
use crate::fake::FakeKernel;
use crate::names::{is_plain, Name};
use crate::processes::{cut, Processes};
use clap::Parser;
use loga::uapi;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

/// What a process, a user and a cgroup may be called, of 15 bytes at most.
const NAMES: [&[u8]; 12] = [
    b"a\x1b[2J b",
    b"\xe2\x80\xaegpj.exe",
    b"VLLM::EngineCor",
    b"caf\xc3",
    b"\xc2\x9b2J",
    b"\xff\xfe",
    b"a\tb\rc",
    b"\"quoted\"",
    b"\xe2\x81\xa6x\xe2\x81\xa9",
    b"ro\xe2\x80\x8bot",
    b"a\\x1b",
    b"\x7f\x08\x08",
];

/// A machine on which a process, a user and a cgroup have the same name.
struct Machine {
    cgroups: tempfile::TempDir,
    proc: tempfile::TempDir,
    fake: FakeKernel,
    name: Name,
    cgroup: u64,
}

impl Machine {
    fn new(name: &[u8]) -> Self {
        let cgroups = tempfile::tempdir().expect("a folder");
        let proc = crate::processes::tests::proc();
        let path = cgroups.path().join(OsStr::from_bytes(name));
        fs::create_dir(&path).expect("a folder");
        let cgroup = fs::metadata(&path).expect("a folder").ino();
        crate::processes::tests::process(proc.path(), 100, name, 1);
        let fake = FakeKernel::new(1);
        fake.add_client(0, 3, 1000);
        fake.add_total(0, uapi::SUBJECT_USER, 1000, 5);
        fake.add_total(0, uapi::SUBJECT_CGROUP, cgroup, 5);
        {
            let gpu = &mut fake.gpus.borrow_mut()[0];
            gpu.clients[0].pid = 100;
            gpu.clients[0].evasions = 1;
            gpu.clients[0].comm = cut(&"first".into());
        }
        Self {
            cgroups,
            proc,
            fake,
            name: name.into(),
            cgroup,
        }
    }

    fn directory(&self) -> Directory {
        Directory::of_user(1000, &self.name, self.cgroups.path())
    }

    /// What a command prints, or its failure.
    fn say(&self, words: &[&OsStr]) -> String {
        let line = [OsStr::new("loga")]
            .into_iter()
            .chain(words.iter().copied());
        let arguments = match cli::Arguments::try_parse_from(line) {
            Ok(arguments) => arguments,
            Err(error) => return crate::names::harmless(&cli::one_line(&error)),
        };
        let (control, directory) = (Control::over(&self.fake), self.directory());
        let processes = Processes::below(self.proc.path());
        let mut out = Vec::new();
        let done = match &arguments.command {
            cli::Command::Set(one) => set::run(one, &control, &directory, &mut out),
            cli::Command::Reserve(one) => reserve::run(one, &control, &directory, &mut out),
            cli::Command::Totals(one) => totals::run(one, &control, &directory, &mut out),
            cli::Command::Stat(one) => stat::run(one, &control, &processes, None, &mut out),
            cli::Command::Events(one) => events::run(one, &control, &processes, &mut out),
            cli::Command::Spec(one) => spec::run(one, &control, &directory, &processes, &mut out),
            other => panic!("{other:?}"),
        };
        let said = String::from_utf8(out).expect("text");
        match done {
            Ok(()) => said,
            Err(failure) => format!("{said}{failure}"),
        }
    }

    fn words(&self, line: &str) -> String {
        let words: Vec<&OsStr> = line.split(' ').map(OsStr::new).collect();
        self.say(&words)
    }

    /// The object that a command prints.
    fn json(&self, line: &str) -> Value {
        let text = self.words(line);
        assert!(is_harmless(&text), "{text:?}");
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
    }

    /// Whether an object has a name as it is, and its bytes where they are no UTF-8.
    fn assert_exact(&self, object: &Value, member: &str, begin: &str) {
        let whole = Name::from([begin.as_bytes(), self.name.as_bytes()].concat());
        assert_eq!(object[member], whole.lossy().as_ref(), "{object}");
        let hex = object.get(format!("{member}_hex")).and_then(Value::as_str);
        assert_eq!(hex, whole.hex().as_deref(), "{object}");
    }
}

fn is_harmless(text: &str) -> bool {
    text.lines().all(|line| line.chars().all(is_plain))
}

#[test]
fn settings_of_any_name_are_made_listed_and_cleared() {
    for name in NAMES {
        let machine = Machine::new(name);
        let path = Name::from([b"/", name].concat());
        let printed = [machine.name.to_string(), path.to_string()];
        for command in ["set", "reserve"] {
            let change = ["--weight", "--prio"][usize::from(command == "reserve")];
            for (option, name) in [("--user", &machine.name), ("--cgroup", &path)] {
                // As it is, and as it is printed.
                for given in [name.as_os_str(), OsStr::new(&name.to_string())] {
                    let words = [command, option].map(OsStr::new);
                    let set = [given, OsStr::new(change), OsStr::new("30")];
                    let said = machine.say(&[&words[..], &set].concat());
                    assert!(is_harmless(&said), "{said:?}");
                    let begin = format!("{} {name}: ", option.trim_start_matches('-'));
                    assert!(said.starts_with(&begin), "{said}");
                }
            }
            let table = machine.words(&format!("{command} --list"));
            assert!(is_harmless(&table), "{table:?}");
            assert!(printed.iter().all(|name| table.contains(name)), "{table}");
            let json = machine.words(&format!("{command} --list --json"));
            assert!(is_harmless(&json), "{json:?}");
            for line in json.lines() {
                let object: Value = serde_json::from_str(line).expect("JSON");
                let begin = if object["subject"] == "user" { "" } else { "/" };
                machine.assert_exact(&object, "name", begin);
            }
            let clear = [command, "--user"].map(OsStr::new);
            let more = ["--clear", "--json"].map(OsStr::new);
            let said = machine.say(&[&clear[..], &[machine.name.as_os_str()], &more].concat());
            let object: Value = serde_json::from_str(said.trim()).expect("JSON");
            assert!(is_harmless(&said));
            machine.assert_exact(&object, "name", "");
        }
    }
}

#[test]
fn totals_stat_and_events_show_any_name_harmlessly_and_tell_it_exactly() {
    for name in NAMES {
        let machine = Machine::new(name);
        let printed = machine.name.to_string();
        for by in ["user", "cgroup"] {
            let table = machine.words(&format!("totals --by {by}"));
            let begin = if by == "user" { "" } else { "/" };
            let row = Name::from([begin.as_bytes(), name].concat()).to_string();
            assert!(is_harmless(&table), "{table:?}");
            assert!(table.contains(&row), "{table:?}");
            let object = machine.json(&format!("totals --by {by} --json"));
            machine.assert_exact(&object["totals"][0], "name", begin);
        }
        let table = machine.words("stat --sums");
        assert!(is_harmless(&table), "{table:?}");
        // A row, and the line about it.
        assert_eq!(
            table.matches(&format!("100 {printed} (user")).count(),
            1,
            "{table}"
        );
        assert_eq!(table.matches(&printed).count(), 2, "{table}");
        let object = machine.json("stat --json");
        machine.assert_exact(&object["clients"][0], "comm", "");
        for options in ["", " --json"] {
            let event = uapi::Event {
                client: 3,
                pid: 100,
                name: cut(&"first".into()),
                time_ns: u64::MAX,
                ..Default::default()
            };
            machine.fake.events.borrow_mut().push_back(vec![event]);
            let said = machine.words(&format!("events --times 1{options}"));
            assert!(is_harmless(&said), "{said:?}");
            match options {
                "" => assert!(said.contains(&format!("100 {printed}: appeared")), "{said}"),
                _ => {
                    let object: Value = serde_json::from_str(said.trim()).expect("JSON");
                    machine.assert_exact(&object, "comm", "");
                }
            }
        }
    }
}

#[test]
fn names_that_do_not_exist_are_refused_harmlessly() {
    let machine = Machine::new(b"a");
    for name in NAMES {
        let name = Name::from([name, b"\n\x1b]0;x\x07"].concat());
        let shown = name.to_string();
        for option in ["--user", "--cgroup"] {
            let words = ["set", option].map(OsStr::new);
            let set = [name.as_os_str(), OsStr::new("--weight"), OsStr::new("3")];
            let said = machine.say(&[&words[..], &set].concat());
            assert!(is_harmless(&said), "{said:?}");
            assert!(said.contains(&shown), "{said:?}");
        }
        let number = ["set", "--pid", "1", "--weight"].map(OsStr::new);
        let said = machine.say(&[&number[..], &[name.as_os_str()]].concat());
        let names_it = said.contains("--weight") || said.contains("invalid UTF-8");
        assert!(is_harmless(&said), "{said:?}");
        assert!(names_it, "{said:?}");
        // A file that is not there.
        let said = machine.say(&[OsStr::new("spec"), name.as_os_str()]);
        assert!(is_harmless(&said), "{said:?}");
        assert!(said.starts_with(&shown), "{said:?}");
    }
}

#[test]
fn spec_of_any_name_finds_its_process_user_and_cgroup() {
    for name in NAMES {
        let machine = Machine::new(name);
        let quoted = format!("{:?}", machine.name);
        let path = format!("{:?}", Name::from([b"/", name].concat()));
        let text =
            format!("{quoted}:HT:-:1:-:-\n@user={quoted}:HT:-:1:-:-\n@cgroup={path}:HT:-:1:-:-\n");
        let file = machine.proc.path().join("x.spec");
        fs::write(&file, text).expect("a file");
        let said = machine.say(&[OsStr::new("spec"), file.as_os_str(), OsStr::new("--apply")]);
        assert!(is_harmless(&said), "{said:?}");
        assert!(
            said.starts_with("line 1: set process 100\nline 2: set user "),
            "{said}"
        );
        let ids: Vec<u64> = machine.fake.gpus.borrow()[0]
            .specs
            .iter()
            .map(|one| one.spec.id)
            .collect();
        assert_eq!(ids, [100, 1000, machine.cgroup]);
    }
}

#[test]
fn cgroup_that_was_removed_is_told_from_one_that_is_not_known() {
    let machine = Machine::new(b"a");
    let gone = machine.cgroup + 1_000_000;
    machine.words(&format!("set --cgroup {gone} --weight 3"));
    machine.words(&format!("reserve --cgroup {gone} --prio 3"));
    machine.fake.add_total(0, uapi::SUBJECT_CGROUP, gone, 1);
    // All that the caller's namespace lacks.
    machine.fake.add_total(0, uapi::SUBJECT_CGROUP, 0, 0);
    for line in ["set --list", "reserve --list", "totals --by cgroup"] {
        let table = machine.words(line);
        assert!(
            table.contains(&format!("removed cgroup {gone} ")),
            "{table}"
        );
        assert!(!table.contains("removed cgroup 0"), "{table}");
        let text = machine.words(&format!("{line} --json"));
        let object: Value = serde_json::from_str(text.trim()).expect("JSON");
        let object = object["totals"].get(1).unwrap_or(&object);
        assert_eq!(
            (&object["name"], &object["id"]),
            (&Value::Null, &gone.into())
        );
        assert!(object.get("name").is_some(), "{object}");
    }
    let mut out = Vec::new();
    let arguments = cli::Arguments::parse_from(["loga", "set", "--list"]);
    let cli::Command::Set(arguments) = arguments.command else {
        panic!("not set");
    };
    let nowhere = Directory::default();
    set::run(
        &arguments,
        &Control::over(&machine.fake),
        &nowhere,
        &mut out,
    )
    .expect("lists");
    assert!(!String::from_utf8_lossy(&out).contains("removed"));
}

#[test]
fn top_shows_any_name_harmlessly() {
    use crate::top::app::App;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};
    use ratatui::Terminal;
    for name in NAMES {
        let machine = Machine::new(name);
        {
            let gpu = &mut machine.fake.gpus.borrow_mut()[0];
            let config = loga::knobs::Config {
                group_by: loga::share::GroupBy::Cgroup,
                ..gpu.info.config()
            };
            gpu.info.note(&config);
            gpu.groups.push(uapi::Group {
                kind: uapi::GROUP_BY_CGROUP,
                key: machine.cgroup,
                ..Default::default()
            });
        }
        let mut app = App::new(machine.directory(), std::time::Duration::from_secs(1));
        let mut snapshots = Control::over(&machine.fake).all().expect("snapshots");
        Processes::below(machine.proc.path()).rename(&mut snapshots);
        let mut screen = Terminal::new(TestBackend::new(140, 10)).expect("a terminal");
        for begin in ["", "/"] {
            app.update(snapshots.clone());
            screen
                .draw(|frame| crate::top::view::draw(&mut app, frame))
                .expect("drawn");
            let cells = screen.backend().buffer().content().iter();
            let text: String = cells.map(|cell| cell.symbol()).collect();
            assert!(is_harmless(&text), "{text:?}");
            // What fits into the column.
            let shown = Name::from([begin.as_bytes(), name].concat()).to_string();
            let shown: String = shown.chars().take(10).collect();
            assert!(text.contains(shown.trim_end()), "{shown:?}: {text}");
            app.key(KeyEvent::from(KeyCode::Char('v')));
        }
    }
}

#[test]
fn argument_that_is_no_text_is_taken() {
    let words = ["loga", "set", "--weight", "3", "--cgroup"].map(OsString::from);
    let bytes = OsString::from_vec(b"/caf\xe9".to_vec());
    let arguments = cli::Arguments::try_parse_from(words.into_iter().chain([bytes]));
    let cli::Command::Set(set) = arguments.expect("arguments").command else {
        panic!("not set");
    };
    assert_eq!(set.whom.cgroup, Some(Name::from(&b"/caf\xe9"[..])));
}
