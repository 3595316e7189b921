// SPDX-License-Identifier: GPL-2.0

//! [tool] One GPU's figures as a person reads them.

use crate::stat::Stat;
use comfy_table::presets::NOTHING;
use comfy_table::CellAlignment;
use comfy_table::Table;

/// Column titles; the second one is text, all others are numbers.
const TITLES: [&str; 10] = [
    "PID", "COMMAND", "CHANNELS", "GPU ms", "SHARE", "ENTITLED", "VTIME ms", "HELD ms", "HELD",
    "STATE",
];

/// A headline and a row per client.
pub fn render(stat: &Stat) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(TITLES);
    for client in &stat.clients {
        table.add_row([
            client.pid.to_string(),
            client.comm.clone(),
            client.channels.to_string(),
            ms(client.gpu_time_ns),
            percent(client.share),
            percent(client.entitled),
            // CAST: shown with one digit behind the point; a float holds that.
            format!("{:+.1}", client.vtime_ahead_ns as f64 / 1e6),
            ms(client.held_ns),
            format!("{}x", client.held_count),
            client.state.clone(),
        ]);
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(match TITLES[i] {
            "COMMAND" | "STATE" => CellAlignment::Left,
            _ => CellAlignment::Right,
        });
    }
    let rows = if stat.clients.is_empty() {
        "no clients".to_string()
    } else {
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.trim_end().to_string())
            .collect();
        lines.join("\n")
    };
    format!("{}\n{}\n{rows}\n", headline(stat), activity(stat))
}

fn headline(stat: &Stat) -> String {
    let mode = if stat.enforcing {
        "enforcing"
    } else {
        "accounting only"
    };
    let lost = if stat.lost { ", device lost" } else { "" };
    format!(
        "GPU {}: chip {} at {}, policy {}, {mode}, source {}{lost}",
        stat.gpu, stat.chip, stat.pci, stat.policy, stat.source
    )
}

fn activity(stat: &Stat) -> String {
    let span = if stat.interval { "last" } else { "all" };
    format!(
        "{span} {} ms: busy {}, idle {}, unknown {}; phases {} ms polling, {} ms not; {} decisions, {} held back, {} released",
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

fn ms(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_string(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::tests::snapshot;

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
            words[..7],
            ["102", "throttle", "0", "360.0", "60.0", "%", "50.0"]
        );
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
