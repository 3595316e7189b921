// SPDX-License-Identifier: GPL-2.0

//! `[tool]` One GPU's figures as a person reads them.

pub(crate) mod fit;
mod grid;

use self::fit::{broken, grid_within};
pub use self::grid::grid;
use crate::stat::{Client, Group, Stat};

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

/// Columns of copies, once any client has copied, and where they go; [`RECENT_TITLES`] go before.
const COPY_TITLES: [&str; 2] = ["COPY ms", "COPIES"];
const COPY_AT: usize = 8;

/// Columns that begin at the left.
const LEFT: [&str; 2] = ["COMMAND", "STATE"];

/// Columns of clients that a narrow terminal does without, the first one first.
const DISPENSABLE: [&str; 15] = [
    "VTIME ms",
    "TIMES",
    "CHANNELS",
    "THROTTLED ms",
    "UID",
    "LIMIT",
    "THERE",
    "COPY ms",
    "WEIGHT",
    "GPU ms",
    "WAITED ms",
    "ENTITLED",
    "COPIES",
    "LAST 1 s",
    "STATE",
];

/// Column titles of groups.
const GROUP_TITLES: [&str; 11] = [
    "",
    "PROCESSES",
    "WEIGHT",
    "GPU ms",
    "SHARE",
    "COPY ms",
    "ENTITLED",
    "WAITED ms",
    "VTIME ms",
    "THROTTLED ms",
    "TIMES",
];

/// Columns of groups that a narrow terminal does without.
const GROUP_DISPENSABLE: [&str; 9] = [
    "VTIME ms",
    "TIMES",
    "COPY ms",
    "THROTTLED ms",
    "PROCESSES",
    "WEIGHT",
    "GPU ms",
    "WAITED ms",
    "ENTITLED",
];

/// Column titles of clients while submissions are decided on.
const SUBMISSION_TITLES: [&str; 13] = [
    "PID",
    "COMMAND",
    "SPEC",
    "PRIO",
    "MODE",
    "RESERVE",
    "SUBMISSIONS",
    "WAITED ms",
    "RUNNING",
    "BUDGET",
    "ORDER",
    "LINGER",
    "LONGEST ms",
];

/// Columns of it that begin at the left.
const SUBMISSION_LEFT: [&str; 4] = ["COMMAND", "SPEC", "MODE", "RESERVE"];

/// Columns of it that a narrow terminal does without.
const SUBMISSION_DISPENSABLE: [&str; 10] = [
    "LINGER",
    "ORDER",
    "BUDGET",
    "RUNNING",
    "SPEC",
    "LONGEST ms",
    "RESERVE",
    "MODE",
    "PRIO",
    "WAITED ms",
];

/// A headline, a row per client, a second one while submissions are decided on, and a row per group if the GPU is not divided between processes.
pub fn render(stat: &Stat) -> String {
    render_with(stat, None, None)
}

/// As [`render`]; with `recent`, the figures of the last second, each client's share of it and for
/// how long the client has been there; with `width`, no wider than a terminal of so many columns.
pub fn render_with(stat: &Stat, recent: Option<&Stat>, width: Option<usize>) -> String {
    let mut titles = TITLES.to_vec();
    let copied = |time: Option<u64>| time.is_some_and(|time| time > 0);
    let copies = stat.clients.iter().any(|one| copied(one.copy_time_ns));
    if copies {
        titles.splice(COPY_AT..COPY_AT, COPY_TITLES);
    }
    if recent.is_some() {
        titles.splice(RECENT_AT..RECENT_AT, RECENT_TITLES);
    }
    let row = |client: &Client| {
        let mut row = client_row(client);
        if copies {
            let shown = [copy_ms(client.copy_time_ns), percent(client.copy_share)];
            row.splice(COPY_AT..COPY_AT, shown);
        }
        if let Some(recent) = recent {
            let same = recent.clients.iter().find(|one| one.id == client.id);
            let share = percent(same.and_then(|one| one.share));
            let there = age(stat.now_ns.saturating_sub(client.since_ns));
            row.splice(RECENT_AT..RECENT_AT, [share, there]);
        }
        row
    };
    let rows = stat.clients.iter().map(row).collect();
    let clients = grid_within(&titles, &LEFT, &DISPENSABLE, rows, width);
    let mut clients = clients.unwrap_or("no clients".to_string());
    let kind = stat.group_by.to_uppercase();
    let rows: Vec<Vec<String>> = match stat.group_by.as_str() {
        "user" | "cgroup" => stat.groups.iter().map(group_row).collect(),
        _ => Vec::new(),
    };
    let mut titles = GROUP_TITLES;
    titles[0] = &kind;
    let turns = stat.clients.iter().filter(|_| stat.dispatch != "none");
    let turns = turns.map(submission_row).collect();
    let turns = grid_within(
        &SUBMISSION_TITLES,
        &SUBMISSION_LEFT,
        &SUBMISSION_DISPENSABLE,
        turns,
        width,
    );
    let groups = grid_within(&titles, &[], &GROUP_DISPENSABLE, rows, width);
    for more in turns.into_iter().chain(groups) {
        clients.push('\n');
        clients.push_str(&more);
    }
    let mut lines = vec![headline(stat), activity(stat)];
    lines.extend(alarms(stat));
    let evasions = stat.clients.iter().filter_map(evasion);
    lines.extend(evasions.map(|line| line.trim_end().to_string()));
    let mut lines: Vec<String> = lines.iter().map(|line| broken(line, width)).collect();
    lines.push(clients);
    lines.join("\n") + "\n"
}

fn client_row(client: &Client) -> Vec<String> {
    vec![
        client.pid.to_string(),
        client.comm.to_string(),
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

fn submission_row(client: &Client) -> Vec<String> {
    let or_none = |word: &str| match word {
        "none" => "-".to_string(),
        word => word.to_string(),
    };
    vec![
        client.pid.to_string(),
        client.comm.to_string(),
        or_none(client.spec.as_deref().unwrap_or("none")),
        client.prio.map_or("-".to_string(), |prio| prio.to_string()),
        client.mode.clone(),
        or_none(&client.reserve),
        client.submissions.to_string(),
        ms(client.submission_wait_ns),
        ms(client.submission_wait_running_ns),
        ms(client.submission_wait_budget_ns),
        ms(client.submission_wait_order_ns),
        ms(client.submission_wait_linger_ns),
        ms(client.longest_submission_wait_ns),
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
        copy_ms(group.copy_time_ns),
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
    let by = client.throttled_by.as_str();
    if client.state == "throttled" && matches!(by, "limit" | "reserve") {
        words.push_str(", ");
        words.push_str(by);
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
    let lost = match (stat.lost, stat.away) {
        (true, _) => ", device lost",
        (false, true) => ", not bound to its driver",
        (false, false) => "",
    };
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
    let copies = match stat.copies {
        true => format!("copies {}", percent(stat.copy_busy)),
        false => "copies not measured".to_string(),
    };
    format!(
        "{span} {} ms: busy {}, idle {}, unknown {}; {copies}; phases {} ms polling, {} ms not; {} decisions, {} throttled, {} released",
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
    let servers = stat.mps_servers.iter();
    lines.extend(servers.map(|pid| {
        format!(
            "MPS: all programs of server {pid} are one client: they share its GPU time, weight and limits"
        )
    }));
    for client in stat.clients.iter().filter(|client| client.ended) {
        let (pid, comm) = (client.pid, &client.comm);
        lines.push(match client.user {
            Some(user) => format!(
                "process {pid} ({comm}) has ended, and process {user} uses its pages on: it is that client, with its limit"
            ),
            None => format!("process {pid} ({comm}) has ended, its channels have not"),
        });
    }
    if stat.unfollowed > 0 {
        lines.push(format!(
            "warning: the driver has {} more that LoGA does not follow: `dmesg` says why",
            match stat.unfollowed {
                1 => "GPU".to_string(),
                count => format!("{count} GPUs"),
            }
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

/// Time of copies, if that is measured.
pub(crate) fn copy_ms(time_ns: Option<u64>) -> String {
    time_ns.map_or("-".to_string(), ms)
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
mod tests;
