// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of Prolog and Epilog against programs that remember what they were asked.

mod cgroups;
mod fake;
mod shapes;

use super::record::MAX_COMMENT;
use super::*;
use fake::FakeJob;
use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The user of the job: only root may leave notes for others.
fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// The programs of a node and of the controller.
#[derive(Default)]
struct Fake {
    asked: RefCell<Vec<String>>,
    /// What the user got, the job's cgroup, and those of which the module has no names.
    used_ns: RefCell<u64>,
    own_ns: RefCell<u64>,
    others_ns: RefCell<u64>,
    /// The jobs of the controller, by their order in its answers; without any there is one that was
    /// given three shards, with whatever number.
    jobs: RefCell<Vec<FakeJob>>,
    /// Comment and AdminComment of that one.
    comment: RefCell<String>,
    /// AdminComments in the database, by the number of the job.
    stored: RefCell<Vec<(u32, String)>>,
    /// No program works.
    dead: bool,
    /// The job has ended for the controller.
    closed: bool,
}

impl Fake {
    /// The jobs of the controller, of which a program is asked for this one.
    fn jobs(&self, name: &str) -> Vec<FakeJob> {
        let jobs = self.jobs.borrow().clone();
        if !jobs.is_empty() {
            return jobs;
        }
        let comment = self.comment.borrow().clone();
        let job = FakeJob::new(
            name.parse().expect("a number"),
            "gres:shard:g1:3",
            "shard:g1:3(IDX:1)",
        );
        vec![FakeJob {
            comment: comment.clone(),
            admin_comment: comment,
            ..job
        }]
    }

    /// Writes a text into the records that a name means.
    fn write(&self, name: &str, text: &str) {
        let (field, text) = text.split_once('=').expect("a text");
        if self.jobs.borrow().is_empty() {
            *self.comment.borrow_mut() = text.to_string();
        }
        for job in self.jobs.borrow_mut().iter_mut().filter(|job| job.is(name)) {
            let comment = match field {
                "Comment" => &mut job.comment,
                "AdminComment" => &mut job.admin_comment,
                _ => panic!("{field}"),
            };
            *comment = text.to_string();
        }
    }

    /// And into the database, in small letters as sacctmgr 22.05.
    fn store(&self, name: &str, text: &str) {
        let (_, text) = text.split_once('=').expect("a text");
        for job in self.jobs(name).iter().filter(|job| job.is(name)) {
            self.stored.borrow_mut().retain(|(id, _)| *id != job.id);
            self.stored.borrow_mut().push((job.id, text.to_lowercase()));
        }
    }

    fn answer(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let line = format!("{program} {}", arguments.join(" "));
        self.asked.borrow_mut().push(line.clone());
        if self.dead {
            return Err(format!("{program}: dead"));
        }
        Ok(match program {
            "loga" if line.contains("--within") => {
                let number = arguments[2].parse().expect("a cgroup");
                totals::tests::json_of_users(&[(number, *self.own_ns.borrow())])
            }
            "loga" if line.contains("--by cgroup") => {
                totals::tests::json_of_others(*self.others_ns.borrow())
            }
            "loga" if arguments[0] == "totals" => totals::tests::json_of_users(&[
                (u64::from(uid()), *self.used_ns.borrow()),
                (u64::from(uid()) + 1, 5),
            ]),
            "scontrol" if arguments.contains(&"node") => {
                "NodeName=n1 CPUAlloc=0 CPUTot=8 Gres=gpu:g3:1(S:0),gpu:g1:1,shard:g3:4,shard:g1:4 \
                 RealMemory=1000 AllocMem=0 State=MIXED Weight=1\n"
                    .to_string()
            }
            "scontrol" if arguments.contains(&"show") => {
                let name = fake::option(arguments, "job");
                return fake::show(&self.jobs(name), name);
            }
            "scontrol" if self.closed => return Err("scontrol: closed".to_string()),
            "scontrol" => {
                let name = arguments[1].strip_prefix("JobId=").expect("a job");
                self.write(name, arguments[2]);
                String::new()
            }
            "sacct" => {
                let name = fake::option(arguments, "-j");
                fake::sacct(&self.jobs(name), &self.stored.borrow(), name)
            }
            "sacctmgr" => {
                let name = fake::option(arguments, "where").strip_prefix("jobid=");
                self.store(name.expect("a job"), arguments[arguments.len() - 1]);
                String::new()
            }
            "squeue" => {
                let name = fake::option(arguments, "-j");
                return fake::squeue(&self.jobs(name), arguments);
            }
            _ => String::new(),
        })
    }

    fn has_asked(&self, what: &str) -> bool {
        self.asked.borrow().iter().any(|line| line.contains(what))
    }
}

fn folder() -> (tempfile::TempDir, cli::SlurmJob) {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = cli::SlurmJob {
        notes: folder.path().join("notes"),
        cgroups: folder.path().join("cgroups"),
    };
    (folder, arguments)
}

/// A Prolog whose operator allows nothing.
fn options(arguments: &cli::SlurmJob) -> cli::SlurmProlog {
    cli::SlurmProlog {
        job: arguments.clone(),
        max_weight: None,
        limits: false,
    }
}

fn place(arguments: &cli::SlurmJob, id: u32) -> NodeJob<'_> {
    let variable = |name: &str| {
        let value = match name {
            "SLURM_JOB_ID" => return Some(id.to_string()),
            "SLURM_JOB_UID" => return Some(uid().to_string()),
            "SLURMD_NODENAME" => "n1",
            "SLURM_JOB_GPUS" => "0",
            _ => return None,
        };
        Some(value.to_string())
    };
    let job = Job::of(variable).expect("sound").expect("has GPUs");
    NodeJob {
        arguments,
        job,
        alone: true,
    }
}

#[test]
fn gpu_time_between_prolog_and_epilog_comes_into_the_comment() {
    let (_folder, arguments) = folder();
    let fake = Fake::default();
    *fake.comment.borrow_mut() = "from the site \n".to_string();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    *fake.used_ns.borrow_mut() = 1_000_000_000;
    // No cgroups here; the rest is done.
    let said = place
        .prolog(&options(&arguments), &ask)
        .expect_err("no weight");
    assert!(said.contains("no cgroups"), "{said}");
    *fake.used_ns.borrow_mut() = 3_500_000_000;
    assert_eq!(
        place.epilog(&ask),
        Ok("loga: 2.500 GPU s on n1".to_string())
    );
    assert_eq!(
        *fake.comment.borrow(),
        "from the site; loga: 2.500 GPU s on n1"
    );
    assert!(place.epilog(&ask).is_err(), "once only");
}

#[test]
fn record_that_is_closed_is_written_in_the_database() {
    let (_folder, arguments) = folder();
    let fake = Fake {
        closed: true,
        ..Fake::default()
    };
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    let _ = place.prolog(&options(&arguments), &ask);
    assert!(place.task_epilog(&ask).is_err(), "a user has no database");
    assert!(place.epilog(&ask).is_ok());
    let wanted = "sacctmgr -i modify job where jobid=7 set AdminComment=loga: 0.000 GPU s on n1";
    assert!(fake.has_asked(wanted));
}

#[test]
fn database_keeps_what_other_nodes_wrote() {
    let (_folder, arguments) = folder();
    let mark = "loga: chose n2 g0 (1-2)";
    let fake = Fake {
        closed: true,
        comment: mark.to_string().into(),
        stored: vec![(
            7,
            format!("{mark}; loga: 1.500 gpu s on n2; loga: 9.000 gpu s on n1"),
        )]
        .into(),
        ..Fake::default()
    };
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    let _ = place.prolog(&options(&arguments), &ask);
    assert!(place.epilog(&ask).is_ok());
    let both = format!("{mark}; loga: 1.500 gpu s on n2; loga: 0.000 gpu s on n1");
    assert_eq!(*fake.stored.borrow(), [(7, both)]);
}

#[test]
fn user_cannot_change_what_the_epilog_reads() {
    let (_folder, arguments) = folder();
    let fake = Fake::default();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    *fake.used_ns.borrow_mut() = 2_000_000_000;
    let _ = place.prolog(&options(&arguments), &ask);
    let note = Note {
        uid: uid(),
        before_ns: Some(0),
        cgroup: Some(1),
        beside: false,
        ..Note::default()
    };
    let text = serde_json::to_string(&note).expect("JSON");
    fs::write(place.note(OF_USER), text).expect("written");
    assert!(place.task_epilog(&ask).expect("noted").contains("2.000"));
    assert!(place.epilog(&ask).expect("noted").contains("0.000"));
    assert!(!fake.has_asked("--clear"));
    let left = fs::read_dir(&arguments.notes).expect("there");
    assert_eq!(left.count(), 1, "the number of the last job");
}

#[test]
fn notes_are_not_left_where_others_can_write() {
    let (_folder, arguments) = folder();
    let fake = Fake::default();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let notes = &arguments.notes;
    let place = place(&arguments, 7);
    let refused = |what: &str| {
        let said = place.prolog(&options(&arguments), &ask).expect_err(what);
        assert!(said.contains("want a folder that only"), "{what}: {said}");
        assert_eq!(fs::read_dir(notes).expect(what).count(), 0, "{what}");
        assert!(fake.asked.borrow().is_empty(), "{what}");
    };
    fs::create_dir(notes).expect("a folder");
    for mode in [0o777, 0o775] {
        fs::set_permissions(notes, fs::Permissions::from_mode(mode)).expect("a mode");
        refused("writable");
    }
    let other = notes.with_file_name("other");
    fs::rename(notes, &other).expect("renamed");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o711)).expect("a mode");
    std::os::unix::fs::symlink(&other, notes).expect("a link");
    refused("a link");
    fs::remove_file(notes).expect("removed");
    let _ = place.prolog(&options(&arguments), &ask);
    assert_eq!(fs::read_dir(notes).expect("made").count(), 3);
}

/// The folder's parents have to be root's alone too: units give theirs to their users, and remove
/// them.
#[test]
fn notes_are_below_no_runtime_directory_of_a_unit() {
    let words = ["loga", "slurm", "prolog"];
    let parsed = <cli::Arguments as clap::Parser>::try_parse_from(words).expect("right");
    let cli::Command::Slurm(cli::Slurm {
        what: cli::SlurmKind::Prolog(arguments),
    }) = parsed.command
    else {
        panic!("not a Prolog");
    };
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let mut count = 0;
    for folder in ["systemd", "slurm"] {
        for entry in fs::read_dir(packaging.join(folder)).expect(folder) {
            let text = fs::read_to_string(entry.expect("a file").path()).expect("text");
            for line in text.lines() {
                if let Some(name) = line.strip_prefix("RuntimeDirectory=") {
                    count += 1;
                    let theirs = Path::new("/run").join(name);
                    assert!(!arguments.job.notes.starts_with(&theirs), "{name}");
                }
            }
        }
    }
    assert_eq!(count, 2, "units with a runtime directory");
}

#[test]
fn totals_that_were_reset_count_from_the_reset() {
    let (_folder, arguments) = folder();
    let fake = Fake::default();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    *fake.used_ns.borrow_mut() = 9_000_000_000;
    let _ = place.prolog(&options(&arguments), &ask);
    *fake.used_ns.borrow_mut() = 2_000_000_000;
    assert_eq!(
        place.epilog(&ask),
        Ok("loga: 2.000 GPU s on n1".to_string())
    );
}

#[test]
fn first_task_of_each_node_writes() {
    assert!(is_first(Some("0".to_string())));
    assert!(is_first(None));
    assert!(!is_first(Some("1".to_string())));
}

#[test]
fn later_step_replaces_what_an_earlier_one_wrote_and_no_other_node() {
    let (_folder, arguments) = folder();
    let fake = Fake::default();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let old =
        "mine; loga: 1.000 GPU s on n1; loga: 7.000 GPU s on n10; loga: 9 GPU s on n1 (with x)";
    *fake.comment.borrow_mut() = old.to_string();
    let place = place(&arguments, 7);
    let _ = place.prolog(&options(&arguments), &ask);
    *fake.used_ns.borrow_mut() = 2_000_000_000;
    let _ = place.task_epilog(&ask);
    let wanted = "mine; loga: 7.000 GPU s on n10; loga: 2.000 GPU s on n1";
    assert_eq!(*fake.comment.borrow(), wanted);
}

#[test]
fn jobs_of_one_user_at_the_same_time_are_marked() {
    let (_folder, arguments) = folder();
    let fake = Fake::default();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let both = [place(&arguments, 7), place(&arguments, 8)];
    for place in &both {
        let _ = place.prolog(&options(&arguments), &ask);
    }
    for place in &both {
        assert!(place
            .epilog(&ask)
            .expect("noted")
            .ends_with("(with other jobs of the user)"));
    }
    let alone = place(&arguments, 9);
    let _ = alone.prolog(&options(&arguments), &ask);
    assert!(alone.epilog(&ask).expect("noted").ends_with("on n1"));
}

#[test]
fn programs_that_are_dead_are_said_and_nothing_else() {
    let (_folder, arguments) = folder();
    let fake = Fake {
        dead: true,
        ..Fake::default()
    };
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    assert_eq!(
        place.prolog(&options(&arguments), &ask),
        Err("loga: dead".to_string())
    );
    assert!(place.epilog(&ask).expect_err("none").contains("Prolog"));
}

#[test]
fn environment_that_is_senseless_is_refused() {
    let with = |name: &'static str, value: &'static str| {
        Job::of(move |asked| {
            let value = match asked {
                asked if asked == name => value,
                "SLURMD_NODENAME" => "n1",
                _ => "1",
            };
            Some(value.to_string())
        })
    };
    assert_eq!(with("SLURM_JOB_GPUS", ""), Ok(None));
    assert!(with("x", "").is_ok_and(|job| job.is_some()));
    assert!(with("SLURM_JOB_ID", "../7").is_err());
    assert!(with("SLURM_JOB_UID", "-1").is_err());
    for name in ["", "..", "a/b", "n 1"] {
        assert!(with("SLURMD_NODENAME", name).is_err(), "{name}");
    }
}

#[test]
fn comment_that_is_full_stays() {
    let (_folder, arguments) = folder();
    let fake = Fake::default();
    *fake.comment.borrow_mut() = "x".repeat(MAX_COMMENT + 1);
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    let _ = place.prolog(&options(&arguments), &ask);
    assert!(place.epilog(&ask).expect_err("full").contains("full"));
    assert!(!fake.has_asked("scontrol update"));
}

#[test]
fn prolog_notes_the_gpus_of_the_node_and_whether_a_type_binds_the_job() {
    let (_folder, arguments) = folder();
    let fake = Fake::default();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    let _ = place.prolog(&options(&arguments), &ask);
    let note = note_for_user(&arguments.notes, &place.job).expect("a note");
    assert_eq!((note.gpus, note.loose), (vec![1, 3], false));
    // That of an earlier version has neither.
    let old = r#"{"uid":1,"before_ns":null,"cgroup":null,"beside":false}"#;
    let path = arguments.notes.join("n1-7.user");
    fs::write(&path, old).expect("written");
    let note = note_for_user(&arguments.notes, &place.job).expect("a note");
    assert_eq!((note.gpus, note.loose), (Vec::new(), false));
}
