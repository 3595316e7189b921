// SPDX-License-Identifier: GPL-2.0

//! [tool] One GPU's figures as a person reads them.

use crate::stat::{Client, Group, Stat};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// Column titles of clients; those of text are in [`LEFT`], all others are numbers.
const TITLES: [&str; 14] = [
    "PID",
    "COMMAND",
    "UID",
    "CHANNELS",
    "WEIGHT",
    "LIMIT",
    "GPU ms",
    "SHARE",
    "ENTITLED",
    "WAITED ms",
    "VTIME ms",
    "THROTTLED ms",
    "TIMES",
    "STATE",
];

/// Columns of the last second, and where they go.
const RECENT_TITLES: [&str; 2] = ["LAST 1 s", "THERE"];
const RECENT_AT: usize = 8;

/// Columns that begin at the left.
const LEFT: [&str; 2] = ["COMMAND", "STATE"];

/// Column titles of groups.
const GROUP_TITLES: [&str; 10] = [
    "",
    "PROCESSES",
    "WEIGHT",
    "GPU ms",
    "SHARE",
    "ENTITLED",
    "WAITED ms",
    "VTIME ms",
    "THROTTLED ms",
    "TIMES",
];

/// Column titles of clients while submissions are decided on.
const TURN_TITLES: [&str; 9] = [
    "PID",
    "COMMAND",
    "SPEC",
    "PRIO",
    "MODE",
    "RESERVE",
    "SUBMISSIONS",
    "WAITED ms",
    "LONGEST ms",
];

/// Columns of it that begin at the left.
const TURN_LEFT: [&str; 4] = ["COMMAND", "SPEC", "MODE", "RESERVE"];

/// A headline, a row per client, a second one while submissions are decided on, and a row per group if the GPU is not divided between processes.
pub fn render(stat: &Stat) -> String {
    render_with(stat, None)
}

/// As [`render`]; with `recent`, the figures of the last second, each client's share of it and for
/// how long the client has been there.
pub fn render_with(stat: &Stat, recent: Option<&Stat>) -> String {
    let mut titles = TITLES.to_vec();
    if recent.is_some() {
        titles.splice(RECENT_AT..RECENT_AT, RECENT_TITLES);
    }
    let row = |client: &Client| {
        let mut row = client_row(client);
        if let Some(recent) = recent {
            let same = recent.clients.iter().find(|one| one.id == client.id);
            let share = percent(same.and_then(|one| one.share));
            let there = age(stat.now_ns.saturating_sub(client.since_ns));
            row.splice(RECENT_AT..RECENT_AT, [share, there]);
        }
        row
    };
    let rows = stat.clients.iter().map(row).collect();
    let mut clients = grid(&titles, &LEFT, rows).unwrap_or("no clients".to_string());
    let kind = stat.group_by.to_uppercase();
    let rows: Vec<Vec<String>> = match stat.group_by.as_str() {
        "user" | "cgroup" => stat.groups.iter().map(group_row).collect(),
        _ => Vec::new(),
    };
    let mut titles = GROUP_TITLES;
    titles[0] = &kind;
    let turns = stat.clients.iter().filter(|_| stat.dispatch != "none");
    let turns = grid(&TURN_TITLES, &TURN_LEFT, turns.map(turn_row).collect());
    for more in turns.into_iter().chain(grid(&titles, &[], rows)) {
        clients.push('\n');
        clients.push_str(&more);
    }
    let mut lines = vec![headline(stat), activity(stat)];
    lines.extend(alarms(stat));
    let evasions = stat.clients.iter().filter_map(evasion);
    lines.extend(evasions.map(|line| line.trim_end().to_string()));
    lines.push(clients);
    lines.join("\n") + "\n"
}

/// Rows below titles, columns side by side; nothing without rows. Columns named in `left` begin at
/// the left, all others end at the right.
pub(crate) fn grid(titles: &[&str], left: &[&str], rows: Vec<Vec<String>>) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(titles).add_rows(rows);
    for (title, column) in titles.iter().zip(table.column_iter_mut()) {
        column.set_cell_alignment(if left.contains(title) {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_string())
        .collect();
    Some(lines.join("\n"))
}

fn client_row(client: &Client) -> Vec<String> {
    vec![
        client.pid.to_string(),
        client.comm.clone(),
        client.uid.to_string(),
        client.channels.to_string(),
        client.weight.to_string(),
        limit(client.limit),
        ms(client.gpu_time_ns),
        share(client),
        percent(client.entitled),
        ms(client.waited_ns),
        ahead(client.vtime_ahead_ns),
        ms(client.throttled_ns),
        format!("{}x", client.throttled_count),
        state(client),
    ]
}

fn turn_row(client: &Client) -> Vec<String> {
    let or_none = |word: &str| match word {
        "none" => "-".to_string(),
        word => word.to_string(),
    };
    vec![
        client.pid.to_string(),
        client.comm.clone(),
        or_none(client.spec.as_deref().unwrap_or("none")),
        client.prio.map_or("-".to_string(), |prio| prio.to_string()),
        client.mode.clone(),
        or_none(&client.reserve),
        client.turns.to_string(),
        ms(client.turns_waited_ns),
        ms(client.turns_longest_ns),
    ]
}

/// Its share, and what that may be wrong by if it was estimated.
fn share(client: &Client) -> String {
    match (client.share, client.share_error) {
        (Some(share), Some(error)) => {
            format!("{:.1} +- {:.1} %", share * 100.0, error * 100.0)
        }
        (share, _) => percent(share),
    }
}

fn group_row(group: &Group) -> Vec<String> {
    vec![
        group.key.to_string(),
        group.members.to_string(),
        group.weight.to_string(),
        ms(group.gpu_time_ns),
        percent(group.share),
        percent(group.entitled),
        ms(group.waited_ns),
        ahead(group.vtime_ahead_ns),
        ms(group.throttled_ns),
        format!("{}x", group.throttled_count),
    ]
}

/// What a client does, its class if it is not the usual one, and why it is throttled if it is not
/// by the policy.
pub(crate) fn state(client: &Client) -> String {
    let mut words = client.state.clone();
    if client.class == "idle" {
        words.push_str(", idle class");
    }
    if client.state == "throttled" && client.throttled_by == "limit" {
        words.push_str(", limit");
    }
    words
}

/// A hard limit, or none.
pub(crate) fn limit(percent: u32) -> String {
    match percent {
        0 | 100 => "-".to_string(),
        percent => format!("{percent} %"),
    }
}

/// Virtual time ahead of the system's, in milliseconds, if that is known.
pub(crate) fn ahead(ns: Option<i64>) -> String {
    // CAST: shown with one digit behind the point; a float holds that.
    ns.map_or("-".to_string(), |ns| format!("{:+.1}", ns as f64 / 1e6))
}

fn headline(stat: &Stat) -> String {
    let mode = if stat.enforcing {
        "enforcing"
    } else {
        "accounting only"
    };
    let lost = if stat.lost { ", device lost" } else { "" };
    let dispatch = match stat.dispatch.as_str() {
        "none" => String::new(),
        name => format!(", dispatch {name}"),
    };
    format!(
        "GPU {}: chip {} at {}, policy {}, {mode}{dispatch}, source {}{lost}",
        stat.gpu, stat.chip, stat.pci, stat.policy, stat.source
    )
}

/// A line about a client of which polling phases show less than the samples between them.
fn evasion(client: &Client) -> Option<String> {
    (client.evasions > 0).then(|| {
        format!(
            "{} {} (user {}) ran more between polling phases than in them, found {} times: it is charged what was found. It evades the poller, or spins where the poller runs (accounting=sparse tells)\n",
            client.pid, client.comm, client.uid, client.evasions
        )
    })
}

fn activity(stat: &Stat) -> String {
    if stat.withheld {
        return "only your own clients: figures of the whole GPU are for root".to_string();
    }
    let span = if stat.interval { "last" } else { "all" };
    format!(
        "{span} {} ms: busy {}, idle {}, unknown {}; phases {} ms polling, {} ms not; {} decisions, {} throttled, {} released",
        ms(stat.span_ns),
        percent(stat.busy),
        percent(stat.idle),
        percent(stat.unknown),
        ms(stat.last_poll_ns),
        ms(stat.last_nonpoll_ns),
        stat.decisions,
        stat.revokes,
        stat.restores,
    )
}

/// What needs attention: a line each.
fn alarms(stat: &Stat) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(chid) = stat.unknown_chid {
        lines.push(format!(
            "warning: channel {chid} was on the engine and belongs to no client: {} of the time is charged to none",
            percent(stat.unknown)
        ));
    }
    if stat.unmanaged_mappings > 0 {
        lines.push(format!(
            "warning: {} mappings of submission pages are not managed: their channels run unthrottled",
            stat.unmanaged_mappings
        ));
    }
    lines
}

/// A time in the largest unit of which there is one.
fn age(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0..=119 => format!("{s} s"),
        120..=7_199 => format!("{} min", s / 60),
        7_200..=172_799 => format!("{} h", s / 3600),
        _ => format!("{} d", s / 86_400),
    }
}

/// Milliseconds with one digit behind the point.
pub(crate) fn ms(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

/// A fraction in percent, if there is one.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_string(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
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
        // Of 100 ms polled in between, the second client had 25.
        before.info.polled_ns -= 100_000_000;
        before.clients[1].measured_ns -= 25_000_000;
        let stat = Stat::new(&now, None);
        let recent = Stat::new(&now, Some(&before));
        let text = render_with(&stat, Some(&recent));
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
        assert!(
            !text.contains("SUBMISSIONS") && !text.contains("dispatch"),
            "{text}"
        );
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
            turns: 7,
            turns_waited_ns: 12_300_000,
            turns_longest_ns: 900_000,
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
            ["102", "throttle", "user", "30", "ht", "pe", "7", "12.3", "0.9"]
        );
        assert_eq!(
            words[7],
            ["101", "throttle", "-", "-", "prt", "-", "0", "0.0", "0.0"]
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
}
