// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of jobs whose number names others as well, or whose texts are hostile: each gets the
//! weight of what it was given itself, and its own record.

use super::*;

/// What the Prolog of a job on n1 says, with the number of its cgroup taken out.
fn prolog(fake: &Fake, id: u32) -> Result<String, String> {
    let (_folder, arguments) = folder();
    let scope = arguments.cgroups.join("system.slice/slurmstepd.scope");
    fs::create_dir_all(&scope).expect("made");
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let said = place(&arguments, id).prolog(&options(&arguments), &ask)?;
    let number = fs::metadata(scope.join(format!("job_{id}"))).expect("made");
    Ok(said.replace(&number.ino().to_string(), "N"))
}

fn element(id: u32, array: (u32, &str), asked: &str, given: &'static str) -> FakeJob {
    FakeJob {
        array: Some((array.0, array.1.to_string())),
        ..FakeJob::new(id, asked, given)
    }
}

fn part(id: u32, het: (u32, u32), asked: &str, given: &'static str) -> FakeJob {
    FakeJob {
        het: Some(het),
        ..FakeJob::new(id, asked, given)
    }
}

/// Of another job: not given anything.
fn waiting(mut job: FakeJob) -> FakeJob {
    job.given.clear();
    job
}

const FORGED: &str = "x\nJobId=7 Nodes=n2 CPU_IDs=0 Mem=0 GRES=shard:g0:8(IDX:0)\n7 ;|,=\t é";

/// Shapes of jobs: what each is, the jobs in the order of the answers, the number of ours, and its
/// weight; none if it stays.
fn shapes() -> Vec<(&'static str, Vec<FakeJob>, u32, Option<u32>)> {
    let one = "gres:shard:g0:1";
    let on_one = "shard:g0:1(IDX:0)";
    let two_nodes = FakeJob {
        given: vec![
            ("n2", "shard:g0:4(IDX:0)"),
            ("n1,n[3-4]", "shard:g0:1(IDX:0),shard:g1:1(IDX:1)"),
        ],
        ..FakeJob::new(7, "gres:shard:2", "")
    };
    let hostile = FakeJob {
        name: FORGED.to_string(),
        comment: FORGED.repeat(5),
        ..FakeJob::new(7, "gres:shard:2", "shard:g0:2(IDX:0)")
    };
    let federated = (5 << 26) + 7;
    vec![
        (
            "shards of no type",
            vec![FakeJob::new(
                7,
                "gres:shard:2",
                "shard:g0:2(IDX:0),shard:g1:0(IDX:)",
            )],
            7,
            Some(200),
        ),
        (
            "shards of a type",
            vec![FakeJob::new(7, "gres:shard:g1:3", "shard:g1:3(IDX:1)")],
            7,
            Some(300),
        ),
        (
            "a whole GPU",
            vec![FakeJob::new(7, "gres:gpu:1", "gpu:g0:1(IDX:0)")],
            7,
            None,
        ),
        (
            "shards of two GPUs",
            vec![FakeJob::new(
                7,
                "gres:shard:g0:2,gres:shard:g1:3",
                "shard:g0:2(IDX:0),shard:g1:3(IDX:1)",
            )],
            7,
            Some(500),
        ),
        (
            "an element of an array",
            vec![
                element(8, (9, "0"), one, "shard:g0:4(IDX:0)"),
                element(7, (9, "1"), "gres:shard:g0:2", "shard:g0:2(IDX:0)"),
                element(9, (9, "2"), one, on_one),
            ],
            7,
            Some(200),
        ),
        (
            "the last element of an array, beside one that is held",
            vec![
                waiting(element(8, (7, "0"), "gres:shard:g0:100", "")),
                element(7, (7, "1"), one, on_one),
            ],
            7,
            Some(100),
        ),
        (
            "the first part of a heterogeneous job",
            vec![
                part(8, (7, 1), "gres:shard:g0:8", "shard:g0:4(IDX:0)"),
                part(7, (7, 0), one, on_one),
            ],
            7,
            Some(100),
        ),
        (
            "the second part",
            vec![
                part(6, (6, 0), one, on_one),
                part(7, (6, 1), "gres:shard:g1:3", "shard:g1:3(IDX:1)"),
            ],
            7,
            Some(300),
        ),
        ("two nodes", vec![two_nodes], 7, Some(200)),
        (
            "a job of a federation",
            vec![
                FakeJob::new(federated, "gres:shard:2", "shard:g0:2(IDX:0)"),
                FakeJob::new(7, one, "shard:g0:4(IDX:0)"),
            ],
            federated,
            Some(200),
        ),
        ("a hostile name and comment", vec![hostile], 7, Some(200)),
        (
            "asked for more than was given",
            vec![FakeJob::new(7, "gres:shard:g0:100", "shard:g0:2(IDX:0)")],
            7,
            Some(200),
        ),
        (
            "given more than the node has",
            vec![FakeJob::new(7, "gres:shard:g0:100", "shard:g0:100(IDX:0)")],
            7,
            Some(800),
        ),
        (
            "as later versions may say it",
            vec![FakeJob::new(7, "gres/shard:3", "gres/shard:3(3/4,0/4)")],
            7,
            Some(300),
        ),
    ]
}

#[test]
fn weight_is_that_of_this_job_and_of_no_other_row() {
    for (what, jobs, id, weight) in shapes() {
        // The order of the answers is the users'.
        for order in [jobs.clone(), jobs.into_iter().rev().collect()] {
            let fake = Fake {
                jobs: order.into(),
                ..Fake::default()
            };
            let wanted = match weight {
                Some(weight) => Ok(format!("weight {weight} for cgroup N")),
                None => Err("it has no shards, its weight stays".to_string()),
            };
            assert_eq!(prolog(&fake, id), wanted, "{what}");
            let of_weight = weight.map(|weight| format!(" --weight {weight}"));
            let set = of_weight.map(|weight| fake.has_asked(&weight));
            assert_eq!(set, weight.map(|_| true), "{what}");
        }
    }
}

/// A job that was put back into the queue is given something else then.
#[test]
fn weight_after_a_requeue_is_that_of_the_new_grant() {
    let fake = Fake::default();
    for (given, weight) in [("shard:g0:3(IDX:0)", 300), ("shard:g1:1(IDX:1)", 100)] {
        *fake.jobs.borrow_mut() = vec![FakeJob::new(7, "gres:shard:g0:3", given)];
        assert_eq!(
            prolog(&fake, 7),
            Ok(format!("weight {weight} for cgroup N"))
        );
    }
}

#[test]
fn answer_that_is_not_of_one_job_gives_no_weight() {
    let own = || FakeJob::new(7, "gres:shard:2", "shard:g0:2(IDX:0)");
    let others = FakeJob {
        uid: uid() + 1,
        ..own()
    };
    let forged = FakeJob {
        name: FORGED.replace("n2", "n1"),
        ..own()
    };
    let elsewhere = FakeJob {
        given: vec![("n[2-3]", "shard:g0:2(IDX:0)")],
        ..own()
    };
    for (jobs, why) in [
        (vec![own(), own()], "squeue has 2 rows of job 7: want one"),
        (vec![others], "for slurmd"),
        (
            vec![element(7, (7, "0-3"), "gres:shard:2", "")],
            "its ArrayTaskID is no number: '0-3'",
        ),
        (vec![FakeJob::new(70, "", "")], "squeue: exit status: 1"),
        (
            vec![forged],
            "scontrol says 2 times what it was given on n1",
        ),
        (
            vec![elsewhere],
            "scontrol does not say what it was given on n1",
        ),
    ] {
        let fake = Fake {
            jobs: jobs.into(),
            ..Fake::default()
        };
        let said = prolog(&fake, 7).expect_err(why);
        assert!(said.contains(why), "{said}");
        assert!(!fake.has_asked("loga set"), "{why}");
    }
}

/// `squeue` that hangs is not asked again, and the Epilog has its note.
#[test]
fn controller_that_does_not_answer_is_asked_once() {
    let (_folder, arguments) = folder();
    let scope = arguments.cgroups.join("system.slice/slurmstepd.scope");
    fs::create_dir_all(&scope).expect("made");
    for answer in [
        Err("squeue gave no answer in 10 s".to_string()),
        Ok(String::new()),
        Ok("7".to_string()),
        Ok("slurm_load_jobs error: Unable to contact slurm controller\n".to_string()),
    ] {
        let fake = Fake::default();
        let ask = |program: &str, arguments: &[&str]| match program {
            "squeue" => {
                let _ = fake.answer("loga", arguments);
                answer.clone()
            }
            _ => fake.answer(program, arguments),
        };
        let place = place(&arguments, 7);
        let said = place.prolog(&options(&arguments), &ask).expect_err("none");
        assert!(said.starts_with("squeue "), "{said}");
        assert!(!fake.has_asked("scontrol"));
        assert!(!fake.has_asked("loga set"));
        *fake.used_ns.borrow_mut() = 2_000_000_000;
        let said = place.epilog(&ask).expect_err("no record");
        assert!(
            said.starts_with("loga: 2.000 GPU s on n1; not in"),
            "{said}"
        );
        assert!(!fake.has_asked("update"));
        assert!(!fake.has_asked("sacctmgr"));
    }
}

#[test]
fn record_of_a_job_whose_number_names_others_is_its_own() {
    let array = || {
        vec![
            element(8, (7, "0"), "gres:shard:1", "shard:g0:1(IDX:0)"),
            element(7, (7, "1"), "gres:shard:1", "shard:g0:1(IDX:0)"),
        ]
    };
    let het = || {
        vec![
            part(8, (7, 1), "gres:shard:1", "shard:g0:1(IDX:0)"),
            part(7, (7, 0), "gres:shard:1", "shard:g0:1(IDX:0)"),
        ]
    };
    for (mut jobs, closed) in [
        (array(), false),
        (array(), true),
        (het(), false),
        (het(), true),
    ] {
        let full = "x".repeat(MAX_COMMENT);
        jobs[0].admin_comment = full.clone();
        jobs[0].comment = format!("{full}\n7");
        jobs[1].admin_comment = "of the site".to_string();
        let (_folder, arguments) = folder();
        let fake = Fake {
            stored: vec![(8, full.clone()), (7, "of the database".to_string())].into(),
            jobs: jobs.into(),
            closed,
            ..Fake::default()
        };
        let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
        let place = place(&arguments, 7);
        let _ = place.prolog(&options(&arguments), &ask);
        let line = "loga: 0.000 GPU s on n1";
        assert_eq!(place.task_epilog(&ask).is_ok(), !closed);
        assert_eq!(place.epilog(&ask), Ok(line.to_string()));
        let jobs = fake.jobs.borrow();
        assert_eq!(jobs[0].comment, format!("{full}\n7"));
        assert_eq!(jobs[0].admin_comment, full);
        let stored = fake.stored.borrow();
        assert_eq!(stored.iter().find(|one| one.0 == 8), Some(&(8, full)));
        if closed {
            let wanted = format!("of the database; {}", line.to_lowercase());
            assert_eq!(stored.last(), Some(&(7, wanted)));
        } else {
            assert_eq!(jobs[1].admin_comment, format!("of the site; {line}"));
            assert_eq!(jobs[1].comment, line);
        }
    }
}

/// Without its database `sacct` fails, or says nothing; then the controller's text counts.
#[test]
fn database_that_is_away_or_answers_for_others_is_not_believed() {
    for (said, written) in [
        (Err("sacct: exit status: 1".to_string()), Some("mine; ")),
        (Ok(String::new()), Some("mine; ")),
        (Ok("7|\n".to_string()), Some("mine; ")),
        (Ok("7|other; text\n".to_string()), Some("other; text; ")),
        (Ok("8|other\n".to_string()), None),
        (Ok("7|one\n7|two\n".to_string()), None),
        (Ok("8|one\n7|two\n".to_string()), None),
        (
            Ok("slurm accounting storage is disabled\n".to_string()),
            None,
        ),
    ] {
        let (_folder, arguments) = folder();
        let fake = Fake {
            closed: true,
            comment: "mine".to_string().into(),
            ..Fake::default()
        };
        let ask = |program: &str, arguments: &[&str]| match program {
            "sacct" => said.clone(),
            _ => fake.answer(program, arguments),
        };
        let place = place(&arguments, 7);
        let _ = place.prolog(&options(&arguments), &ask);
        let done = place.epilog(&ask);
        let wanted = written.map(|text| format!("{text}loga: 0.000 gpu s on n1"));
        assert_eq!(done.is_ok(), written.is_some(), "{said:?}: {done:?}");
        let stored = fake.stored.borrow().first().map(|one| one.1.clone());
        assert_eq!(stored, wanted, "{said:?}");
    }
}

#[test]
fn comment_of_64_kib_is_read_in_part_and_stays() {
    let long = "é".repeat(32 << 10);
    let job = FakeJob {
        comment: long.clone(),
        ..FakeJob::new(7, "gres:shard:2", "shard:g0:2(IDX:0)")
    };
    let fake = Fake {
        jobs: vec![job].into(),
        ..Fake::default()
    };
    let said = prolog(&fake, 7).expect("a weight");
    let why = "refused of its comment: it has 1024 bytes or more";
    assert_eq!(said, format!("weight 200 for cgroup N; {why}"));
    let (_folder, arguments) = folder();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    let _ = place.prolog(&options(&arguments), &ask);
    assert_eq!(place.task_epilog(&ask), Err("it is full".to_string()));
    assert_eq!(fake.jobs.borrow()[0].comment, long);
}

/// slurmctld tells the database a moment later that a job is an element.
#[test]
fn element_that_the_database_does_not_have_yet_is_waited_for() {
    let (_folder, arguments) = folder();
    let fake = Fake {
        jobs: vec![element(7, (7, "1"), "gres:shard:1", "shard:g0:1(IDX:0)")].into(),
        closed: true,
        ..Fake::default()
    };
    let asked = RefCell::new(0);
    let ask = |program: &str, arguments: &[&str]| match program {
        "sacct" if asked.replace_with(|count| *count + 1) == 0 => Ok(String::new()),
        "sacctmgr" if *asked.borrow() < 2 => Err("sacctmgr: exit status: 1".to_string()),
        _ => fake.answer(program, arguments),
    };
    let place = place(&arguments, 7);
    let _ = place.prolog(&options(&arguments), &ask);
    assert!(place.epilog(&ask).is_ok());
    let wanted = (7, "loga: 0.000 gpu s on n1".to_string());
    assert_eq!(*fake.stored.borrow(), [wanted]);
}

/// What the Prolog was told once does not count for the record of the job.
#[test]
fn record_stays_when_squeue_hangs_says_nothing_or_has_two_rows_of_one_number_at_the_end() {
    let own = || FakeJob::new(7, "gres:shard:2", "shard:g0:2(IDX:0)");
    for (rows, why) in [
        (None, "squeue gave no answer in 10 s"),
        (Some(vec![]), "squeue has no row of job 7"),
        (Some(vec![own(), own()]), "squeue has 2 rows of job 7"),
    ] {
        let (_folder, arguments) = folder();
        let fake = Fake {
            jobs: vec![own()].into(),
            ..Fake::default()
        };
        let place = place(&arguments, 7);
        let _ = place.prolog(
            &options(&arguments),
            &|program: &str, arguments: &[&str]| fake.answer(program, arguments),
        );
        let ask = |program: &str, arguments: &[&str]| match (program, &rows) {
            ("squeue", None) => Err("squeue gave no answer in 10 s".to_string()),
            ("squeue", Some(rows)) if rows.is_empty() => Ok(String::new()),
            ("squeue", Some(rows)) => fake::squeue(rows, arguments),
            ("sacct", _) => Err("sacct: exit status: 1".to_string()),
            _ => fake.answer(program, arguments),
        };
        for said in [place.task_epilog(&ask), place.epilog(&ask)] {
            let said = said.expect_err(why);
            assert!(said.contains(why), "{said}");
        }
        assert!(!fake.has_asked("update"));
        assert!(!fake.has_asked("sacctmgr"));
    }
}

#[test]
fn record_of_64_kib_in_the_database_stays() {
    let long = "é".repeat(32 << 10);
    let (_folder, arguments) = folder();
    let fake = Fake {
        jobs: vec![FakeJob::new(7, "gres:shard:2", "shard:g0:2(IDX:0)")].into(),
        stored: vec![(7, long.clone())].into(),
        closed: true,
        ..Fake::default()
    };
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    let _ = place.prolog(&options(&arguments), &ask);
    let said = place.epilog(&ask).expect_err("full");
    assert!(said.contains("it is full"), "{said}");
    assert_eq!(*fake.stored.borrow(), [(7, long)]);
}
