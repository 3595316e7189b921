// SPDX-License-Identifier: GPL-2.0

//! Tests of tables.

use super::*;
use crate::stat::tests::snapshot;
use loga::knobs::Config;
use loga::policies::dispatch::DispatcherKind;
use loga::uapi;

#[test]
fn table_shows_headline_and_a_row_per_client() {
    let text = render(&Stat::new(&snapshot(1), None));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(
        lines[0],
        "GPU 0: chip 0xf1 at 0001:01:00.0, policy event, enforcing, source engine-status"
    );
    assert!(lines[1].starts_with("all 600.0 ms: busy 75.0 %, idle 25.0 %, unknown 0.0 %"));
    let words: Vec<&str> = lines[3].split_whitespace().collect();
    assert_eq!(
        words[..10],
        ["102", "throttle", "0", "0", "100", "-", "360.0", "60.0", "%", "50.0"]
    );
}

#[test]
fn share_of_the_last_second_stands_beside_that_of_all() {
    let mut now = snapshot(1);
    now.info.now_ns = 200_000_000_000;
    now.clients[1].since_ns = 10_000_000_000;
    let mut before = now.clone();
    // Of 100 ms in between, the second client was charged 25.
    before.info.unpolled_ns -= 100_000_000;
    before.clients[1].gpu_time_ns -= 25_000_000;
    let stat = Stat::new(&now, None);
    let recent = Stat::new(&now, Some(&before));
    let text = render_with(&stat, Some(&recent), None);
    let of = |pid: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(pid));
        line.expect(pid).to_string()
    };
    assert!(text.contains("SHARE  LAST 1 s  THERE  ENTITLED"), "{text}");
    let pid = now.clients[1].pid.to_string();
    assert!(of(&pid).contains("25.0 %  3 min"), "{text}");
}

#[test]
fn clients_have_a_second_row_while_submissions_are_decided_on() {
    let mut now = snapshot(1);
    let text = render(&Stat::new(&now, None));
    assert!(!text.contains("SUBMISSIONS"), "{text}");
    assert!(!text.contains("dispatch"), "{text}");
    let config = now.info.config();
    now.info.note(&Config {
        dispatch: Some(DispatcherKind::Edf),
        ..config
    });
    now.clients[1] = uapi::Client {
        spec: uapi::SUBJECT_USER,
        prio: 30,
        mode: uapi::MODE_HT,
        reserve: uapi::RESERVE_PE,
        submissions: 7,
        submission_waits: uapi::SubmissionWaits {
            running_ns: 5_000_000,
            budget_ns: 4_000_000,
            order_ns: 3_000_000,
            linger_ns: 300_000,
        },
        longest_submission_wait_ns: 900_000,
        ..now.clients[1]
    };
    let text = render(&Stat::new(&now, None));
    assert!(text.contains("enforcing, dispatch edf, source"), "{text}");
    let words: Vec<Vec<&str>> = text
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(
        words[6],
        [
            "102", "throttle", "user", "30", "ht", "pe", "7", "12.3", "5.0", "4.0", "3.0", "0.3",
            "0.9"
        ]
    );
    assert_eq!(
        words[7],
        ["101", "throttle", "-", "-", "prt", "-", "0", "0.0", "0.0", "0.0", "0.0", "0.0", "0.0"]
    );
}

#[test]
fn ages_are_told_in_one_unit() {
    let of = |s: u64| age(s * 1_000_000_000);
    assert_eq!(
        [of(0), of(119), of(120), of(7_200), of(200_000)],
        ["0 s", "119 s", "2 min", "2 h", "2 d"]
    );
}

#[test]
fn client_that_ran_unpolled_has_a_line_of_its_own() {
    let mut found = snapshot(1);
    found.clients[1].evasions = 3;
    let text = render(&Stat::new(&found, None));
    assert!(text.contains(
        "102 throttle (user 0) ran more between polling phases than in them, found 3 times"
    ));
    assert!(!text.contains("101 throttle (user 0) ran"));
}

#[test]
fn figures_that_are_withheld_are_not_shown_as_zeros() {
    let mut own = snapshot(1);
    own.info.withhold();
    let text = render(&Stat::new(&own, None));
    assert!(
        text.contains("figures of the whole GPU are for root"),
        "{text}"
    );
    assert!(!text.contains("decisions"));
    assert!(!text.contains("+0.0"));
}

#[test]
fn share_from_sparse_accounting_shows_its_bound() {
    let mut sparse = snapshot(1);
    sparse.info.sample_interval_ns = 500_000;
    sparse.clients[1].variance_us2 = 36_000_000;
    let stat = Stat::new(&sparse, None);
    // 1.96 times the root of 36.25 ms^2, and two strata, of 600 ms.
    assert_eq!(stat.clients[0].error_ns, 12_801_000);
    let text = render(&stat);
    assert!(text.contains("60.0 +- 2.1 %"), "{text}");
    // Since an earlier one: of that time only.
    let mut later = sparse.clone();
    later.info.polled_ns *= 2;
    later.clients[1].variance_us2 *= 2;
    let between = Stat::new(&later, Some(&sparse));
    let client = between.clients.iter().find(|client| client.id == 2);
    assert_eq!(client.map(|client| client.error_ns), Some(12_801_000));
}

#[test]
fn table_without_clients_says_so() {
    let mut empty = snapshot(0);
    empty.clients.clear();
    let text = render(&Stat::new(&empty, None));
    assert!(text.ends_with("no clients\n"), "{text}");
    assert!(text.contains("busy -, idle -"), "{text}");
}

#[test]
fn table_fits_a_narrow_terminal_and_names_what_it_leaves_out() {
    let mut now = snapshot(3);
    now.info.now_ns = 200_000_000_000;
    let config = now.info.config();
    now.info.note(&Config {
        dispatch: Some(DispatcherKind::Edf),
        group_by: loga::share::GroupBy::User,
        ..config
    });
    for client in &mut now.clients {
        client.pid = 4_194_304;
        client.uid = 4_000_000_000;
        client.copy_time_ns = 1_000_000_000_000;
        client.comm[..15].copy_from_slice(b"a-long-name-of-");
    }
    let before = snapshot(1);
    let (stat, recent) = (Stat::new(&now, None), Stat::new(&now, Some(&before)));
    let whole = render_with(&stat, Some(&recent), None);
    assert!(!whole.contains("not shown"), "{whole}");
    assert_eq!(render_with(&stat, Some(&recent), Some(1000)), whole);
    let titles = |text: &str| -> Vec<String> {
        let words = text
            .split(&[' ', ',', '\n'][..])
            .filter(|word| word.len() > 2);
        let is_title = |word: &&str| word.chars().all(|c| c.is_ascii_uppercase());
        let mut titles: Vec<String> = words.filter(is_title).map(str::to_string).collect();
        titles.sort();
        titles.dedup();
        titles
    };
    for width in 40..=200 {
        let text = render_with(&stat, Some(&recent), Some(width));
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}\n{text}");
        }
        // Nothing is left out without a word.
        assert_eq!(titles(&text), titles(&whole), "{width}:\n{text}");
    }
    let text = render_with(&stat, Some(&recent), Some(80));
    let titles = text
        .lines()
        .find(|line| line.contains("PID"))
        .expect("titles");
    for title in ["COMMAND", "SHARE", "LAST 1 s", "STATE"] {
        assert!(titles.contains(title), "{text}");
    }
}

#[test]
fn help_has_the_order_in_which_columns_are_left_out() {
    let command = <crate::cli::Arguments as clap::CommandFactory>::command();
    let stat = command.find_subcommand("stat").expect("a command");
    let about = stat.get_long_about().expect("a text").to_string();
    let order = format!(": {}. A pipe", DISPENSABLE.join(", "));
    assert!(about.contains(&order), "{order}: {about}");
}
