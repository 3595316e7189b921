// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Patterns of cgroups, and where what is in force comes from.

use super::*;

#[test]
fn pattern_names_the_cgroups_that_no_other_entry_names() {
    let machine = Machine::new();
    for path in ["jobs/job_1/step_0", "jobs/job_2", "jobs/mob_3"] {
        fs::create_dir_all(machine.folder.path().join("cgroup").join(path)).expect("a folder");
    }
    let text = "[[share]]\ncgroup = '/jobs/job_*'\nweight = 5\n\
        [[share]]\ncgroup = '/jobs/job_2'\nlimit = 30\n\
        [[share]]\ncgroup = '/*/*_3'\nweight = 6\n\
        [[share]]\ncgroup = '/jobs/*'\nweight = 9\n";
    let (outcome, _) = machine.apply(&[text], "").expect("applied");
    assert_eq!(outcome, Outcome::Whole);
    let of = |path: &str| machine.cgroup(&format!("jobs/{path}"));
    assert_eq!(
        machine.set(0).2,
        [
            (of("job_2"), 0, 30),
            (of("job_1"), 5, 0),
            (of("mob_3"), 6, 0)
        ]
    );
}

#[test]
fn file_that_may_not_be_looked_at_is_no_absent_one() {
    let folder = tempfile::tempdir().expect("a folder");
    // A name that is too long stands for a folder that may not be searched: root may search all.
    let file = folder.path().join("x".repeat(300));
    let wrong = default_files(&file, folder.path()).expect_err("said");
    assert!(wrong.to_string().contains("File name too long"), "{wrong}");
}

#[test]
fn what_is_in_force_is_shown_with_its_origin() {
    let machine = Machine::new();
    let path = machine.folder.path().join("1.toml");
    machine.apply(&[GOOD], "").expect("applied");
    machine.fake.gpus.borrow_mut()[0].shares[0].weight = 17;
    machine.fake.gpus.borrow_mut()[1].shares.clear();
    let arguments = cli::ConfigShow {
        files: vec![path],
        json: false,
    };
    let directory = Directory::of(USERS, Some(&machine.folder.path().join("cgroup")));
    let mut out = Vec::new();
    show::run(
        &arguments,
        &Control::over(&machine.fake),
        &directory,
        &mut out,
    )
    .expect("shown");
    let text = String::from_utf8(out).expect("text");
    let text = text.replace(&format!("{}/", machine.folder.path().display()), "");
    let line = |gpu: u32, setting: &str| {
        let begin = format!("{gpu} {setting} ");
        let lines = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let found = lines
            .filter(|line| line.starts_with(&begin))
            .collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{begin}: {text}");
        found[0]
            .strip_prefix(&begin)
            .expect("its begin")
            .to_string()
    };
    assert_eq!(line(0, "poll_ms"), "2 1.toml:5");
    assert_eq!(line(1, "enforce"), "0 1.toml:8");
    assert_eq!(line(0, "ratio"), "5 default");
    assert_eq!(
        line(0, "user ann"),
        "weight=17 limit=50 set by hand, or when the module was loaded; 1.toml:10 has weight=300 limit=50"
    );
    assert_eq!(
        line(0, "cgroup /batch.slice"),
        "weight=10 class=idle 1.toml:15"
    );
    assert_eq!(
        line(1, "user ann"),
        "- 1.toml:10, not in force: `loga apply`"
    );
}

#[test]
fn cgroups_that_somebody_makes_take_no_room_from_what_files_name() {
    let machine = Machine::new();
    for number in 0..MAX_MATCHED + 44 {
        let path = format!("cgroup/jobs/job_{number:03}");
        fs::create_dir_all(machine.folder.path().join(path)).expect("a folder");
    }
    let refusal = Refusal {
        code: uapi::REFUSED_FULL,
        max: 512,
        ..Default::default()
    };
    machine
        .fake
        .refuse_share(machine.cgroup("jobs/job_007"), refusal, u32::MAX);
    let text = "[[share]]\ncgroup = '/jobs/job_*'\nweight = 5\n\
        [[share]]\nuser = 'ann'\nlimit = 30\n";
    let (outcome, said) = machine.apply(&[text], "").expect("applied");
    assert_eq!(outcome, Outcome::Skipped(2), "{said}");
    assert!(
        said.contains("1.toml:1: cgroup /jobs/job_007: no room for another of 512"),
        "{said}"
    );
    assert!(
        said.contains("1.toml:1: more than 256 cgroups fit patterns; skipped"),
        "{said}"
    );
    let set = machine.set(0).2;
    assert_eq!((set.len(), set[0]), (MAX_MATCHED, (1000, 0, 30)));
}
