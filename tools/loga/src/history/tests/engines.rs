// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Copies and lengths of commands in the history: as the agent follows them, and what
//! `loga place` makes of them.

use super::abuse::{environment, object, place_in, program, teach};
use super::following::{kernel, Agent, MS};
use super::run;
use crate::history::record::Run;
use crate::placing;
use loga::uapi;
use serde_json::Value;

#[test]
fn copies_go_on_as_at_the_last_snapshot_and_count_without_any_gpu_time() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    for measured in [false, true] {
        let flags = if measured { uapi::GPU_COPIES } else { 0 };
        fake.gpus.borrow_mut()[0].info.flags |= flags;
        agent.client(7, 2000, 0, 0);
        {
            let client = &mut fake.gpus.borrow_mut()[0].clients[0];
            client.copy_time_ns = if measured { 500 * MS } else { 0 };
            client.copy_2s_ppm = 250_000;
        }
        // As long as the rest of a run that has copied.
        let end_ms = if measured { 2400 } else { 2000 };
        agent.tick(Vec::new());
        agent.gone();
        let exit = agent.event(uapi::EVENT_EXITED, end_ms, 7, 0);
        agent.tick(vec![exit]);
        assert_eq!(agent.is_empty(), !measured);
    }
    let model = agent.model();
    // 500 ms at the snapshot, and a quarter of the 400 ms since, in 1400 ms.
    assert_eq!((model.copy.runs, model.copy.mean), (1, 428_571));
    assert_eq!((model.gpu.mean, model.want.mean), (0, 0));
}

// A program that copies goes beside one that computes, as soon as its copies are known.
#[test]
fn copies_of_earlier_runs_decide_under_dtf_and_move_a_cost_by_two_at_most() {
    let fake = placing::tests::kernel(&[40, 40]);
    {
        let gpus = &mut fake.gpus.borrow_mut();
        gpus.iter_mut()
            .for_each(|gpu| gpu.info.flags = uapi::GPU_COPIES);
        gpus[0].clients[0].copy_30s_ppm = 600_000;
        gpus[1].clients[0].busy_30s_ppm = 450_000;
    }
    let agent = Agent::new(&fake);
    let environment = environment(&agent);
    let dtf = "--policy dtf -- /bin/sh";
    teach(&agent, 0, 400, 1000);
    // Of the engine that is used more, less is used on GPU 0.
    let before = object(&fake, &environment, dtf);
    assert_eq!(before["copy_pct"], Value::Null);
    assert_eq!(before["chosen"][0], 0);
    let copied = Run {
        copy_ns: Some(700_000_000),
        ..run(0, 400, 1000, 0)
    };
    agent.keeper.teach(vec![(program(), copied); 3]);
    let after = object(&fake, &environment, dtf);
    assert_eq!(
        (&after["copy_pct"], &after["want_pct"]),
        (&70.into(), &40.into())
    );
    assert_eq!(after["history"]["copy"], true);
    assert_eq!(after["chosen"][0], 1);
    assert_eq!(after["gpus"][0]["copy_pct"], 60);
    for at in 0..2 {
        let cost = |choice: &Value| choice["gpus"][at]["cost"].as_f64().expect("a cost");
        assert!(cost(&after) <= cost(&before) * 2.0, "{at}");
    }
    let (out, _) = place_in(&fake, &environment, dtf);
    let line = "wants 40 % and copies 70 % (by 6 earlier runs)";
    assert!(out.contains(line), "{out}");
    assert!(out.contains("COPIES"), "{out}");
    // What a user says of what it wants leaves what it copies.
    let given = object(&fake, &environment, "--policy dtf --want 10 -- /bin/sh");
    assert_eq!(
        (&given["copy_pct"], &given["want_pct"]),
        (&70.into(), &10.into())
    );
}

// Five runs on the engine in 300 ms; the run that began and ended unseen has no length.
#[test]
fn length_of_commands_is_that_of_the_last_snapshot_where_it_was_measured() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    for runs in [5, 0] {
        agent.client(7, 2000, 300, 0);
        {
            let client = &mut fake.gpus.borrow_mut()[0].clients[0];
            (client.measured_ns, client.runs) = (300 * MS, runs);
        }
        agent.tick(Vec::new());
        agent.gone();
        let exit = agent.event(uapi::EVENT_EXITED, 2400, 7, 300 * MS);
        agent.tick(vec![exit]);
    }
    let model = agent.model();
    assert_eq!((model.command.runs, model.command.mean), (1, 60 * MS));
    assert_eq!(model.gpu.runs, 2);
}

// GPU 0 has one client of long commands, GPU 1 one that wants more in short ones.
#[test]
fn program_of_short_commands_keeps_away_from_long_ones_as_soon_as_its_own_are_known() {
    let fake = placing::tests::kernel(&[40, 45]);
    {
        let gpus = &mut fake.gpus.borrow_mut();
        for (gpu, us) in gpus.iter_mut().zip([2_000, 100]) {
            let client = &mut gpu.clients[0];
            (client.measured_ns, client.runs) = (us * 1_000_000, 1_000);
        }
    }
    let agent = Agent::new(&fake);
    let environment = environment(&agent);
    teach(&agent, 0, 100, 1000);
    let before = object(&fake, &environment, "-- /bin/sh");
    assert_eq!(
        (&before["command_us"], &before["history"]["command"]),
        (&500.0.into(), &false.into())
    );
    let short = Run {
        command_ns: Some(300_000),
        ..run(0, 100, 1000, 0)
    };
    agent.keeper.teach(vec![(program(), short); 3]);
    let after = object(&fake, &environment, "-- /bin/sh");
    assert_eq!(
        (&after["command_us"], &after["history"]["command"]),
        (&300.0.into(), &true.into())
    );
    let added =
        |choice: &Value, at: usize| choice["gpus"][at]["terms"]["own"].as_f64().expect("a term");
    // It waits as long for the commands of the others, for less of its own.
    assert!(added(&after, 0) > added(&before, 0) * 1.04, "{after}");
    assert_eq!(
        (&before["chosen"][0], &after["chosen"][0]),
        (&0.into(), &1.into())
    );
    let (out, _) = place_in(&fake, &environment, "-- /bin/sh");
    assert!(out.contains("; commands of 300 us by them"), "{out}");
    // Not more than half of what is assumed, and not where it is given.
    let tiny = Run {
        command_ns: Some(200_000),
        ..run(0, 100, 1000, 0)
    };
    agent.keeper.teach(vec![(program(), tiny); 40]);
    assert_eq!(
        object(&fake, &environment, "-- /bin/sh")["command_us"],
        250.0
    );
    let given = object(&fake, &environment, "--command-us 700 -- /bin/sh");
    assert_eq!(
        (&given["command_us"], &given["history"]["command"]),
        (&700.0.into(), &false.into())
    );
}
