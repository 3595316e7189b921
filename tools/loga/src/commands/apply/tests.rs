// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What files set, and that those that are wrong set nothing.

mod patterns;

use super::*;
use crate::fake::FakeKernel;
use loga::uapi::Refusal;
use std::os::unix::fs::MetadataExt;
use tempfile::TempDir;

const USERS: &str = "ann:x:1000:\nbob:x:1001:\n";

/// A machine: its files, its cgroups and its kernel module.
struct Machine {
    folder: TempDir,
    fake: FakeKernel,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [
            "cgroup/system.slice/render.service",
            "cgroup/batch.slice/batch-night.slice",
            "cgroup/user.slice/app/render.service",
        ] {
            fs::create_dir_all(folder.path().join(path)).expect("a folder");
        }
        Self {
            folder,
            fake: FakeKernel::new(2),
        }
    }

    fn cgroup(&self, path: &str) -> u64 {
        fs::metadata(self.folder.path().join("cgroup").join(path))
            .expect("a cgroup")
            .ino()
    }

    /// Applies files, in their order.
    fn apply(&self, texts: &[&str], options: &str) -> Result<(Outcome, String), String> {
        let mut line = format!("loga apply {options}");
        for (number, text) in (1..).zip(texts) {
            let path = self.folder.path().join(format!("{number}.toml"));
            fs::write(&path, text).expect("a file");
            line += &format!(" {}", path.display());
        }
        let arguments = <cli::Arguments as clap::Parser>::parse_from(line.split_whitespace());
        let cli::Command::Apply(arguments) = arguments.command else {
            panic!("not apply: {line}");
        };
        let mut out = Vec::new();
        let directory = Directory::of(USERS, Some(&self.folder.path().join("cgroup")));
        let outcome = run(
            &arguments,
            || Ok(Control::over(&self.fake)),
            &directory,
            &mut out,
        );
        // Paths of this machine are left out.
        let short = |text: String| text.replace(&format!("{}/", self.folder.path().display()), "");
        let outcome = outcome.map_err(|failure| short(failure.to_string()))?;
        Ok((outcome, short(String::from_utf8(out).expect("text"))))
    }

    fn wrong(&self, text: &str) -> String {
        self.apply(&[text], "").expect_err(text)
    }

    /// What is set on a GPU: policy, enforce, and subjects with weights and limits.
    fn set(&self, gpu: usize) -> (String, bool, Vec<(u64, u32, u32)>) {
        let gpu = &self.fake.gpus.borrow()[gpu];
        let config = gpu.info.config();
        let shares = gpu
            .shares
            .iter()
            .map(|share| (share.id, share.weight, share.limit_pct));
        (
            config.policy.name().to_string(),
            config.enforce,
            shares.collect(),
        )
    }
}

const GOOD: &str = r#"
[knobs]
policy = "maxmin"
enforce = true
poll_ms = 2

[gpu.1]
enforce = false

[[share]]
user = "ann"
weight = 300
limit = 50

[[share]]
cgroup = "/batch.slice"
gpu = 0
class = "idle"
weight = 10

[[share]]
unit = "render.service"
target = 30
"#;

#[test]
fn files_are_applied_on_the_gpus_that_they_name() {
    let machine = Machine::new();
    let (outcome, said) = machine.apply(&[GOOD], "").expect("applied");
    assert_eq!(outcome, Outcome::Whole);
    assert_eq!(
        said,
        "GPU 0: enforce=1 policy=maxmin poll_ms=2\nGPU 1: enforce=0 policy=maxmin poll_ms=2\n\
         user ann: set, from 1.toml:10\ncgroup /batch.slice: set, from 1.toml:15\n\
         unit render.service: set, from 1.toml:21\n"
    );
    let render = machine.cgroup("system.slice/render.service");
    let batch = machine.cgroup("batch.slice");
    assert_eq!(
        machine.set(0),
        (
            "maxmin".into(),
            true,
            vec![(1000, 300, 50), (batch, 10, 0), (render, 0, 0)]
        )
    );
    assert_eq!(
        machine.set(1),
        (
            "maxmin".into(),
            false,
            vec![(1000, 300, 50), (render, 0, 0)]
        )
    );
    let shares = &machine.fake.gpus.borrow()[0].shares;
    assert_eq!(
        (shares[1].class, shares[2].target_pct),
        (uapi::CLASS_IDLE, 30)
    );
}

#[test]
fn later_files_change_what_they_say_again() {
    let machine = Machine::new();
    let later = "[knobs]\npoll_ms = 7\n[[share]]\nuser = 'ann'\nlimit = 60\n[[share]]\nuser = 1001\nweight = 5\n";
    machine.apply(&[GOOD, later], "").expect("applied");
    let (policy, enforce, shares) = machine.set(0);
    assert_eq!((policy.as_str(), enforce), ("maxmin", true));
    assert!(shares.contains(&(1000, 300, 60)), "{shares:?}");
    assert!(shares.contains(&(1001, 5, 0)), "{shares:?}");
    assert_eq!(machine.fake.gpus.borrow()[1].info.config().poll_ms, 7);
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_would_be_right() {
    let machine = Machine::new();
    for (text, said) in [
        ("[knobs]\npolcy = 'maxmin'", "1.toml:2: there is no knob polcy: want one of policy, enforce, poll_ms,"),
        ("\n[knob]\nx = 1", "1.toml:2: unknown field `knob`, expected one of `knobs`, `gpu`, `share`"),
        ("[knobs]\npolicy = 'fifo'", "1.toml:2: policy = \"fifo\": want one of \"maxmin\", \"event\","),
        ("[knobs]\nenforce = 1", "1.toml:2: enforce = 1: want true or false"),
        ("[knobs]\nratio = 0", "1.toml:2: ratio = 0: want a whole number, 1 to 1000"),
        ("[knobs]\nratio = '5'", "1.toml:2: ratio = \"5\": want a whole number, 1 to 1000"),
        ("[knobs]\n\npoller = 'shared'", "1.toml:3: poller is set when the module is loaded: write `options loga poller=..`"),
        ("[knobs]\nratio = 1\nratio = 2", "1.toml:3: duplicate key"),
        ("[gpu.x]\nratio = 1", "1.toml:1: gpu.x: want the number of a GPU, such as [gpu.0]"),
        ("[[share]]\nweight = 1", "1.toml:1: want user, cgroup or unit, one of them"),
        ("[[share]]\nuser = 'ann'\nunit = 'x.slice'\nweight = 1", "1.toml:1: want user, cgroup or unit, one of them"),
        ("[[share]]\nuser = 'ann'", "1.toml:1: nothing to set: want weight, limit, class, target or access"),
        ("[[share]]\nuser = 'ann'\nwait = 1", "1.toml:3: unknown field `wait`, expected one of `user`, `cgroup`, `unit`, `gpu`, `weight`,"),
        ("[[share]]\nuser = 'ann'\nweight = 10001", "1.toml:3: weight = 10001: want a whole number, 1 to 10000"),
        ("[[share]]\nuser = 'ann'\nlimit = 0", "1.toml:3: limit = 0: want a whole number, 1 to 100"),
        ("[[share]]\nuser = 'ann'\ntarget = 91", "1.toml:3: target = 91: want a whole number, 0 to 90"),
        ("[[share]]\nuser = 'ann'\nclass = 'low'", "1.toml:3: class = \"low\": want one of \"normal\", \"idle\""),
        ("[[share]]\nuser = 'eve'\nweight = 1", "1.toml:1: there is no user 'eve': want a name that `getent passwd` lists"),
        ("[[share]]\nuser = -1\nweight = 1", "1.toml:2: user = -1: want a name or a number"),
        ("[[share]]\ncgroup = 'render'\nweight = 1", "1.toml:2: cgroup = \"render\": want its path below the mount point"),
        ("[[share]]\ncgroup = '/a/../b'\nweight = 1", "1.toml:2: cgroup = \"/a/../b\": want its path"),
        ("[[share]]\nunit = 'render'\nweight = 1", "1.toml:2: unit = \"render\": want a name that ends in .service, .slice, .scope"),
        ("[[share]]\nuser = 'ann'\nweight = 1\n[[share]]\nuser = 'ann'\nlimit = 1", "1.toml:4: user ann has a [[share]] in line 1 already"),
        ("[knobs]\nratio =", "1.toml:2: "),
        ("[gpu.2]\nratio = 1", "1.toml:2: there is no GPU 2: want 0 to 1"),
        ("[[share]]\nuser = 'ann'\nweight = 1\ngpu = 9", "1.toml:1: there is no GPU 9: want 0 to 1"),
    ] {
        let wrong = machine.wrong(text);
        assert!(wrong.starts_with(said), "{text}: {wrong}");
assert!(!wrong.contains('\n'), "{text}: {wrong}");
    }
    assert_eq!(machine.set(0), ("event".into(), false, Vec::new()));
}

#[test]
fn file_that_is_wrong_leaves_those_before_it_without_effect() {
    let machine = Machine::new();
    let said = machine
        .apply(&[GOOD, "[knobs]\nratio = 0"], "")
        .expect_err("wrong");
    assert!(said.starts_with("2.toml:2: "), "{said}");
    assert!(machine.fake.configured.get().is_none());
    assert_eq!(machine.set(0), ("event".into(), false, Vec::new()));
    let said = machine
        .apply(&[GOOD], "/nonexistent.toml")
        .expect_err("absent");
    assert!(
        said.starts_with("/nonexistent.toml: No such file"),
        "{said}"
    );
    assert!(machine.fake.configured.get().is_none());
}

#[test]
fn entry_that_the_module_refuses_takes_all_others_back() {
    let machine = Machine::new();
    machine
        .apply(&["[[share]]\nuser = 'ann'\nweight = 77\nlimit = 20\n"], "")
        .expect("applied");
    let before = [machine.set(0), machine.set(1)];
    let refusal = Refusal {
        code: uapi::REFUSED_FULL,
        max: 512,
        ..Default::default()
    };
    machine
        .fake
        .refuse_share(machine.cgroup("system.slice/render.service"), refusal, 1);
    let said = machine.wrong(GOOD);
    assert!(
        said.starts_with("1.toml:21: cgroup render.service: no room for another of 512"),
        "{said}"
    );
    assert!(said.ends_with("; nothing has been applied"), "{said}");
    assert_eq!([machine.set(0), machine.set(1)], before);
}

#[test]
fn limit_that_waits_for_another_is_taken_back_after_it() {
    let machine = Machine::new();
    let before = "[[share]]\nuser = 'ann'\nlimit = 50\n[[share]]\nuser = 'bob'\nlimit = 40\n";
    machine.apply(&[before], "").expect("applied");
    let shares = machine.set(0).2;
    let refusal = |code| Refusal {
        code,
        max: 512,
        ..Default::default()
    };
    let render = machine.cgroup("system.slice/render.service");
    let full = refusal(uapi::REFUSED_FULL);
    machine.fake.refuse_share(render, full, u32::MAX);
    let text = before.replace('0', "5") + "[[share]]\nunit = 'render.service'\nlimit = 9\n";
    // Once when it is set, and once when it is taken back.
    let below = refusal(uapi::REFUSED_BELOW_MEMBER);
    machine.fake.refuse_share(1000, below, 2);
    let said = machine.wrong(&text);
    assert!(said.ends_with("; nothing has been applied"), "{said}");
    let sorted = |mut shares: Vec<(u64, u32, u32)>| {
        shares.sort_unstable();
        shares
    };
    assert_eq!(sorted(machine.set(0).2), sorted(shares));
    // One that stays refused is named.
    machine.fake.refuse_share(1000, below, u32::MAX);
    let said = machine.wrong(&text);
    assert!(
        said.ends_with("; not as before: user ann on GPU 0, user ann on GPU 1"),
        "{said}"
    );
}

#[test]
fn entry_that_waits_for_another_comes_after_it() {
    let machine = Machine::new();
    let refusal = Refusal {
        code: uapi::REFUSED_BELOW_MEMBER,
        value: 50,
        min: 80,
        ..Default::default()
    };
    machine.fake.refuse_share(1000, refusal, 1);
    let text = "[[share]]\nuser = 'ann'\nlimit = 50\n[[share]]\nuser = 'bob'\nlimit = 30\n";
    let (_, said) = machine.apply(&[text], "").expect("applied");
    assert_eq!(
        said,
        "user bob: set, from 1.toml:4\nuser ann: set, from 1.toml:1\n"
    );
    // One that waits for none of them is refused.
    machine.fake.refuse_share(1000, refusal, u32::MAX);
    let said = machine.wrong(text);
    assert!(
        said.starts_with("1.toml:1: user ann: limit=50 is below"),
        "{said}"
    );
    assert_eq!(machine.set(0).2.len(), 1, "{:?}", machine.set(0));
}

#[test]
fn cgroup_that_does_not_exist_is_skipped_and_counted() {
    let machine = Machine::new();
    let text = "[[share]]\ncgroup = '/later'\nweight = 1\n[[share]]\nunit = 'later.service'\nweight = 2\n[[share]]\nuser = 'bob'\nweight = 3\n";
    let (outcome, said) = machine.apply(&[text], "").expect("applied");
    assert_eq!(outcome, Outcome::Skipped(2));
    assert!(
        said.contains("1.toml:1: there is no cgroup '/later'"),
        "{said}"
    );
    assert!(said.contains("; skipped\n"), "{said}");
    assert!(
        said.contains("1.toml:4: there is no cgroup of the unit 'later.service'"),
        "{said}"
    );
    assert_eq!(machine.set(0).2, [(1001, 3, 0)]);
}

#[test]
fn unit_is_found_below_slices_only() {
    let machine = Machine::new();
    let directory = Directory::of("", Some(&machine.folder.path().join("cgroup")));
    assert_eq!(
        directory.unit_id(&"render.service".into()),
        Ok(machine.cgroup("system.slice/render.service"))
    );
    assert_eq!(
        directory.unit_id(&"batch-night.slice".into()),
        Ok(machine.cgroup("batch.slice/batch-night.slice"))
    );
    fs::remove_dir(
        machine
            .folder
            .path()
            .join("cgroup/system.slice/render.service"),
    )
    .expect("removed");
    assert!(directory.unit_id(&"render.service".into()).is_err());
}

#[test]
fn check_sets_nothing_and_needs_no_module() {
    let machine = Machine::new();
    machine.fake.fail(libc::EIO);
    let (outcome, said) = machine.apply(&[GOOD], "--check").expect("right");
    assert_eq!(
        (outcome, said.as_str()),
        (Outcome::Whole, "right: 4 knobs, 3 shares\n")
    );
    assert!(machine.apply(&["[knobs]\nx = 1"], "--check").is_err());
    assert!(machine.apply(&[GOOD], "").is_err());
}

#[test]
fn files_of_the_machine_are_read_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, more) = (
        folder.path().join("loga.toml"),
        folder.path().join("loga.toml.d"),
    );
    assert!(default_files(&file, &more).expect("none").is_empty());
    fs::create_dir(&more).expect("a folder");
    for name in ["20-b.toml", "10-a.toml", "README", "30-c.toml~"] {
        fs::write(more.join(name), "").expect("a file");
    }
    fs::write(&file, "").expect("a file");
    let wanted = [file.clone(), more.join("10-a.toml"), more.join("20-b.toml")];
    assert_eq!(default_files(&file, &more).expect("files"), wanted);
}

#[test]
fn users_cgroups_and_units_of_any_name_are_named() {
    use std::os::unix::ffi::OsStrExt;
    let machine = Machine::new();
    let cgroups = machine.folder.path().join("cgroup");
    let mut ids = Vec::new();
    for name in [
        &b"cri-containerd:1"[..],
        b"a\x1b[2J\tb",
        b"caf\xe9 \"x\"",
        b"system.slice/dev-disk\\x2duuid.service",
        b"system.slice/caf\xe9.service",
    ] {
        let path = cgroups.join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir(&path).expect("a folder");
        ids.push((fs::metadata(&path).expect("a folder").ino(), 7, 0));
    }
    let text = r#"
        [[share]]
        cgroup = "/cri-containerd:1"
        weight = 7
        [[share]]
        cgroup = "/a\u001b[2J\tb"
        weight = 7
        [[share]]
        cgroup = '"/caf\xe9 \"x\""'
        weight = 7
        [[share]]
        unit = 'dev-disk\x2duuid.service'
        weight = 7
        [[share]]
        unit = '"caf\xe9.service"'
        weight = 7
    "#;
    let (outcome, said) = machine.apply(&[text], "").expect("applied");
    assert_eq!((outcome, &machine.set(0).2), (Outcome::Whole, &ids));
    assert!(
        said.contains("cgroup \"/a\\x1b[2J\\tb\": set, from 1.toml:5\n"),
        "{said}"
    );
    assert!(
        said.chars().all(|c| c == '\n' || crate::names::is_plain(c)),
        "{said:?}"
    );
    let said = machine.wrong("[[share]]\ncgroup = '\"/a'\nweight = 3\n");
    assert!(said.contains("1.toml:2: \"/a: want a second \""), "{said}");
    let said = machine.wrong("[[share]]\nuser = \"e\\u009bve\"\nweight = 3\n");
    assert!(said.contains("there is no user '\"e\\u{9b}ve\"'"), "{said}");
    let said = machine.wrong("[[share]]\ncgroup = \"\\u001bx\"\nweight = 3\n");
    assert!(said.chars().all(crate::names::is_plain), "{said:?}");
}

/// What docs/settings.md shows after these words.
fn shown_after(words: &str) -> &'static str {
    let page = include_str!("../../../../../docs/settings.md");
    let rest = page.split_once(words).expect(words).1;
    let block = rest.split_once("```toml\n").expect("an example").1;
    block.split("```").next().expect("its end")
}

#[test]
fn denial_that_the_documents_show_is_set_before_anybody_logs_in_and_that_of_a_pattern_is_not() {
    let denied = |text: &str| {
        let machine = Machine::new();
        machine.apply(&[text], "").expect(text);
        let gpus = machine.fake.gpus.borrow();
        let shares = gpus[0].shares.iter();
        let denied = shares.filter(|share| share.access == uapi::ACCESS_DENIED);
        let denied: Vec<(u32, u64)> = denied.map(|share| (share.subject, share.id)).collect();
        (denied, machine.cgroup("user.slice"))
    };
    let (shown, slice) = denied(shown_after("**From the first moment.**"));
    assert_eq!(
        shown,
        [(uapi::SUBJECT_USER, 1000), (uapi::SUBJECT_CGROUP, slice)]
    );
    let (pattern, _) =
        denied("[[share]]\ncgroup = '/user.slice/user-*.slice'\naccess = 'denied'\n");
    assert_eq!(pattern, []);
}
