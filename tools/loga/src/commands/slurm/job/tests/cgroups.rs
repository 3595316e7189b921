// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of what Prolog and Epilog do with the job's cgroup.

use super::*;

#[test]
fn cgroup_of_the_job_gets_the_weight_of_its_shards_until_its_end() {
    let (_folder, arguments) = folder();
    let scope = arguments.cgroups.join("system.slice/n1_slurmstepd.scope");
    fs::create_dir_all(&scope).expect("made");
    let fake = Fake::default();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 8);
    let said = place.prolog(&options(&arguments), &ask).expect("a weight");
    let number = fs::metadata(scope.join("job_8")).expect("made").ino();
    assert_eq!(said, format!("weight 300 for cgroup {number}"));
    assert!(fake.has_asked(&format!("loga set --cgroup {number} --weight 300")));
    place.epilog(&ask).expect("noted");
    assert!(fake.has_asked(&format!("loga set --cgroup {number} --clear")));
    assert!(!scope.join("job_8").exists(), "no step has run in it");
    // Something is below it.
    let _ = place.prolog(&options(&arguments), &ask);
    fs::create_dir(scope.join("job_8/step_0")).expect("made");
    place.epilog(&ask).expect("noted");
    assert!(scope.join("job_8/step_0").exists());
}

#[test]
fn gpu_time_is_that_of_the_cgroup_of_the_job_where_that_is_known() {
    let (_folder, arguments) = folder();
    let scope = arguments.cgroups.join("system.slice/slurmstepd.scope");
    fs::create_dir_all(&scope).expect("made");
    let fake = Fake::default();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    // Jobs of one user at the same time.
    let both = [place(&arguments, 7), place(&arguments, 8)];
    *fake.others_ns.borrow_mut() = 3;
    for place in &both {
        let _ = place.prolog(&options(&arguments), &ask);
    }
    *fake.used_ns.borrow_mut() = 5_000_000_000;
    *fake.own_ns.borrow_mut() = 2_000_000_000;
    let [first, second] = &both;
    // One that runs, and one whose cgroup Slurm has removed.
    fs::create_dir(scope.join("job_7/step_batch").as_path()).expect("made");
    assert_eq!(
        first.task_epilog(&ask),
        Ok("loga: 2.000 GPU s on n1".to_string())
    );
    fs::remove_dir(scope.join("job_8")).expect("removed");
    assert_eq!(
        second.epilog(&ask),
        Ok("loga: 2.000 GPU s on n1".to_string())
    );
    // The module had to forget cgroups.
    *fake.others_ns.borrow_mut() = 4;
    let said = first.epilog(&ask).expect("noted");
    assert_eq!(
        said,
        "loga: 5.000 GPU s on n1 (with other jobs of the user)"
    );
    // Slurm puts no process there.
    let third = place(&arguments, 9);
    let _ = third.prolog(&options(&arguments), &ask);
    *fake.used_ns.borrow_mut() = 6_000_000_000;
    assert_eq!(
        third.epilog(&ask),
        Ok("loga: 1.000 GPU s on n1".to_string())
    );
}

#[test]
fn comment_gives_a_weight_and_a_limit_that_the_operator_allows() {
    let (_folder, arguments) = folder();
    let scope = arguments.cgroups.join("system.slice/slurmstepd.scope");
    fs::create_dir_all(&scope).expect("made");
    let fake = Fake::default();
    let ask = |program: &str, arguments: &[&str]| fake.answer(program, arguments);
    let place = place(&arguments, 7);
    let said = |comment: &str, max_weight, limits| {
        *fake.comment.borrow_mut() = comment.to_string();
        let options = cli::SlurmProlog {
            max_weight,
            limits,
            ..options(&arguments)
        };
        let said = place.prolog(&options, &ask).expect("set");
        let number = fs::metadata(scope.join("job_7")).expect("made").ino();
        said.replace(&number.to_string(), "N")
    };
    let both = "mine loga:weight=400,loga:limit=40";
    assert_eq!(
        said(both, Some(400), true),
        "weight 400, limit 40 for cgroup N"
    );
    assert!(fake.has_asked("--weight 400 --limit 40"));
    assert_eq!(
        said("loga:limit=40", None, true),
        "weight 300, limit 40 for cgroup N"
    );
    for (comment, max_weight, limits, why) in [
        (
            both,
            Some(399),
            true,
            "loga:weight=400: at most 399 is allowed here (--max-weight)",
        ),
        (
            both,
            None,
            true,
            "loga:weight is not allowed here (--max-weight)",
        ),
        (
            both,
            Some(400),
            false,
            "loga:limit is not allowed here (--limits)",
        ),
        (
            "loga:weight=0",
            Some(400),
            true,
            "'loga:weight=0': want loga:weight=N with 1 to 10000",
        ),
    ] {
        let wanted = format!("weight 300 for cgroup N; refused of its comment: {why}");
        assert_eq!(said(comment, max_weight, limits), wanted);
    }
    assert!(place.epilog(&ask).is_ok());
}
