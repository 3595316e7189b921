// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of policies that go by attained service, between users: shares are those of the
//! model's own log.

use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::sharing::over;
use crate::stage::{Stage, LAZY};
use crate::truth::Truth;
use std::time::Duration;

crate::ktap::tests![
    las_levels_serves_a_user_with_two_processes_as_much_as_one_with_one: timed,
    las_serves_a_user_that_starts_anew_no_more_than_its_part: timed,
    las_levels_serves_a_user_that_starts_anew_no_more_than_its_part: timed slow,
    las_levels_serves_a_process_that_starts_anew_no_more_than_its_part: timed slow,
];

/// It always wants the GPU.
const HOG: &str = "--kernel-us 500 --jitter 20 --depth 2 --wait block --channels 2";

/// Two users of the virtual machine.
const USERS: [u32; 2] = [1000, 1001];

fn las_levels_serves_a_user_with_two_processes_as_much_as_one_with_one() -> Verdict {
    two_processes_beside_one("las-levels", 4_000)
}

fn two_processes_beside_one(policy: &str, ms: u64) -> Verdict {
    let stage = Stage::set(LAZY, &format!("policy={policy} enforce=1 group_by=user"))?;
    let [one, other] = USERS;
    let loads = [
        Load::start_as(one, &format!("{HOG} --seed 1"))?,
        Load::start_as(one, &format!("{HOG} --seed 2"))?,
        Load::start_as(other, &format!("{HOG} --seed 3"))?,
    ];
    stage.wait_until_all_measured(&loads)?;
    over([&loads[0], &loads[1], &loads[2]], 1000, ms, |got| {
        let both = got[0] + got[1];
        let part = 100.0 * got[2] / (both + got[2]);
        // By processes it would be a third.
        within("percent of one process", part, 46.0..=54.0)?;
        ensure!(
            got[..2].iter().all(|share| *share > both / 4.0),
            "{got:.1?}"
        );
        Ok(())
    })?;
    stage.check_no_fallback()?;
    drop(loads);
    stage.teardown()
}

fn las_serves_a_user_that_starts_anew_no_more_than_its_part() -> Verdict {
    starts_anew("las", "user", 1_000)
}

fn las_levels_serves_a_user_that_starts_anew_no_more_than_its_part() -> Verdict {
    starts_anew("las-levels", "user", 9_000)
}

fn las_levels_serves_a_process_that_starts_anew_no_more_than_its_part() -> Verdict {
    starts_anew("las-levels", "process", 9_000)
}

/// A user whose process ends and begins again, beside one whose process stays. Both have had the
/// GPU for `before_ms`: under `las-levels` both are in the third level, of 4 to 16 s, to the end.
fn starts_anew(policy: &str, group_by: &str, before_ms: u64) -> Verdict {
    let parameters = format!("policy={policy} enforce=1 group_by={group_by}");
    let stage = Stage::set(LAZY, &parameters)?;
    let [user, other] = USERS;
    let stays = Load::start_as(other, &format!("{HOG} --seed 100"))?;
    let first = Load::start_as(user, &format!("{HOG} --seed 101"))?;
    stage.wait_until_all_measured([&stays, &first])?;
    std::thread::sleep(Duration::from_millis(before_ms));
    drop(first);
    let (mut anew, mut all) = (0.0, 0.0);
    for round in 1..=8 {
        // What it owes is paid.
        std::thread::sleep(Duration::from_millis(300));
        Truth::reset()?;
        let again = Load::start_as(user, &format!("{HOG} --seed {round}"))?;
        stage.wait_until_measured(again.pid())?;
        std::thread::sleep(Duration::from_millis(700));
        let truth = Truth::read()?;
        let got = [again.pid(), stays.pid()].map(|pid| 100.0 * truth.ran_share(pid));
        println!("# {policy} by {group_by}, round {round}: {got:.1?}");
        (anew, all) = (anew + got[0], all + got[0] + got[1]);
        drop(again);
    }
    let part = 100.0 * anew / all;
    println!("# {policy} by {group_by}: {part:.1} % for the one that starts anew");
    within("percent of the one that starts anew", part, ..=55.0)?;
    // Nor does it lose what is its part: it is not there for some of each window.
    within("percent of the one that starts anew", part, 25.0..)?;
    stage.check_no_fallback()?;
    drop(stays);
    stage.teardown()
}
