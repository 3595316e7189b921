// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The lines of the table, and their order.

use super::figures::{Figures, History};
use crate::directory::Directory;
use crate::names::Name;
use crate::stat::{Client, Group};
use crate::table;
use std::cmp::Ordering;
use std::collections::HashMap;

/// What the table has lines of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Processes.
    Clients,
    /// What the GPU is divided between.
    Groups,
}

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Index of the GPU.
    Gpu,
    /// Process.
    Pid,
    /// User.
    User,
    /// Command, or the name of a group.
    Name,
    /// Channels, or processes of a group.
    Count,
    /// Weight.
    Weight,
    /// Hard limit.
    Limit,
    /// Share received.
    Share,
    /// Share of the copy engine received, where copies are measured.
    Copy,
    /// Share entitled to.
    Entitled,
    /// Time waited, as a part of the time.
    Waited,
    /// Virtual time ahead of the system's.
    Ahead,
    /// Times throttled.
    Throttled,
    /// What it does.
    State,
}

/// Columns of clients.
const OF_CLIENTS: &[Column] = &[
    Column::Gpu,
    Column::Pid,
    Column::User,
    Column::Name,
    Column::Count,
    Column::Weight,
    Column::Limit,
    Column::Share,
    Column::Copy,
    Column::Entitled,
    Column::Waited,
    Column::Ahead,
    Column::Throttled,
    Column::State,
];

/// Columns of groups.
const OF_GROUPS: &[Column] = &[
    Column::Gpu,
    Column::Name,
    Column::Count,
    Column::Weight,
    Column::Share,
    Column::Copy,
    Column::Entitled,
    Column::Waited,
    Column::Ahead,
    Column::Throttled,
    Column::State,
];

/// Columns that a narrow screen does without, the first one first.
const DISPENSABLE: &[Column] = &[
    Column::Ahead,
    Column::Count,
    Column::Limit,
    Column::Throttled,
    Column::Waited,
    Column::User,
    Column::Gpu,
    Column::Weight,
    Column::Entitled,
    Column::Copy,
];

/// Those that go on a screen that is narrower still; only the name stays.
const LAST: &[Column] = &[Column::State, Column::Pid, Column::Share];

/// Least width of names beside another column.
const NAME_LEAST: u16 = 8;

impl View {
    /// Its columns, that of copies if they are measured.
    pub fn columns(self, copies: bool) -> Vec<Column> {
        let all = match self {
            View::Clients => OF_CLIENTS,
            View::Groups => OF_GROUPS,
        };
        let shown = |column: &Column| copies || *column != Column::Copy;
        all.iter().copied().filter(shown).collect()
    }

    /// Its columns that fit into `width`, among them the one that the lines are sorted by.
    pub(super) fn columns_within(self, width: u16, copies: bool, sorted_by: Column) -> Vec<Column> {
        let mut columns = self.columns(copies);
        let needs =
            |columns: &[Column]| -> u16 { columns.iter().map(|column| column.width() + 1).sum() };
        for column in DISPENSABLE {
            if needs(&columns) <= width {
                break;
            }
            columns.retain(|kept| kept != column || *kept == sorted_by);
        }
        columns
    }

    /// Columns without those that are dispensable, each with a space behind it.
    pub(super) fn least_width(self) -> u16 {
        let columns = self.columns(false);
        let kept = columns
            .iter()
            .filter(|column| !DISPENSABLE.contains(column));
        kept.map(|column| column.width() + 1).sum()
    }

    /// As [`columns_within`](Self::columns_within), on any screen, with their widths.
    pub(super) fn widths_within(
        self,
        width: u16,
        copies: bool,
        sorted_by: Column,
    ) -> Vec<(Column, u16)> {
        let mut columns = self.columns_within(width, copies, sorted_by);
        let others = |columns: &[Column]| -> u16 {
            let others = columns.iter().filter(|column| **column != Column::Name);
            others.map(|column| column.width() + 1).sum()
        };
        // Whatever lines are sorted by goes before the share and the name.
        let mut last = LAST.to_vec();
        last.insert(2, sorted_by);
        for column in last {
            if others(&columns) + NAME_LEAST <= width {
                break;
            }
            columns.retain(|kept| *kept != column || column == Column::Name);
        }
        let name = width
            .saturating_sub(others(&columns))
            .min(Column::Name.width());
        let width = |column: Column| match column {
            Column::Name => name,
            column => column.width(),
        };
        columns
            .into_iter()
            .map(|column| (column, width(column)))
            .collect()
    }
}

impl Column {
    /// Its title.
    pub(super) const fn title(self, view: View) -> &'static str {
        match (self, view) {
            (Column::Gpu, _) => "GPU",
            (Column::Pid, _) => "PID",
            (Column::User, _) => "USER",
            (Column::Name, View::Clients) => "COMMAND",
            (Column::Name, View::Groups) => "GROUP",
            (Column::Count, View::Clients) => "CHAN",
            (Column::Count, View::Groups) => "PROC",
            (Column::Weight, _) => "WEIGHT",
            (Column::Limit, _) => "LIMIT",
            (Column::Share, _) => "SHARE",
            (Column::Copy, _) => "COPY",
            (Column::Entitled, _) => "ENTITLED",
            (Column::Waited, _) => "WAITED",
            (Column::Ahead, _) => "VTIME ms",
            (Column::Throttled, _) => "THROTTLED",
            (Column::State, _) => "STATE",
        }
    }

    /// Characters for it, room for the sign of the order included.
    pub(super) const fn width(self) -> u16 {
        match self {
            Column::Gpu => 4,
            Column::Pid | Column::Weight => 7,
            Column::User => 8,
            Column::Name => 15,
            Column::Throttled => 9,
            Column::Count => 5,
            Column::Limit => 6,
            Column::Share | Column::Copy | Column::Waited => 7,
            Column::Entitled | Column::Ahead => 9,
            Column::State => 19,
        }
    }

    /// Whether it is text, which begins at the left.
    pub(super) const fn is_text(self) -> bool {
        matches!(self, Column::User | Column::Name | Column::State)
    }
}

/// A line of the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) gpu: u32,
    id: u64,
    pid: i32,
    user: String,
    name: String,
    count: u32,
    weight: u32,
    limit: u32,
    pub(super) share: Option<f64>,
    copy: Option<f64>,
    pub(super) entitled: Option<f64>,
    waited: Option<f64>,
    ahead_ns: Option<i64>,
    throttled_count: u64,
    state: String,
    pub(super) history: History,
}

impl Row {
    /// What stands in a column.
    pub(super) fn cell(&self, column: Column) -> String {
        match column {
            Column::Gpu => self.gpu.to_string(),
            Column::Pid => self.pid.to_string(),
            Column::User => self.user.clone(),
            Column::Name => self.name.clone(),
            Column::Count => self.count.to_string(),
            Column::Weight => self.weight.to_string(),
            Column::Limit => table::limit(self.limit),
            Column::Share => table::percent(self.share),
            Column::Copy => table::percent(self.copy),
            Column::Entitled => table::percent(self.entitled),
            Column::Waited => table::percent(self.waited),
            Column::Ahead => table::ahead(self.ahead_ns),
            Column::Throttled => self.throttled_count.to_string(),
            Column::State => self.state.clone(),
        }
    }

    /// Whether it is throttled.
    pub(super) fn is_throttled(&self) -> bool {
        self.state.starts_with("throttled")
    }

    fn order(&self, other: &Row, column: Column) -> Ordering {
        let fraction = |one: Option<f64>, two: Option<f64>| {
            // Nothing known comes below nothing received.
            one.unwrap_or(-1.0).total_cmp(&two.unwrap_or(-1.0))
        };
        match column {
            Column::Gpu => self.gpu.cmp(&other.gpu),
            Column::Pid => self.pid.cmp(&other.pid),
            Column::User => self.user.cmp(&other.user),
            Column::Name => self.name.cmp(&other.name),
            Column::Count => self.count.cmp(&other.count),
            Column::Weight => self.weight.cmp(&other.weight),
            Column::Limit => self.limit.cmp(&other.limit),
            Column::Share => fraction(self.share, other.share),
            Column::Copy => fraction(self.copy, other.copy),
            Column::Entitled => fraction(self.entitled, other.entitled),
            Column::Waited => fraction(self.waited, other.waited),
            Column::Ahead => self.ahead_ns.cmp(&other.ahead_ns),
            Column::Throttled => self.throttled_count.cmp(&other.throttled_count),
            Column::State => self.state.cmp(&other.state),
        }
    }
}

/// Sorts lines; those that are equal stay in the order of GPU and number.
pub(super) fn sort(rows: &mut [Row], column: Column, descending: bool) {
    rows.sort_by(|one, two| {
        let order = one.order(two, column);
        let order = if descending { order.reverse() } else { order };
        order.then(one.gpu.cmp(&two.gpu)).then(one.id.cmp(&two.id))
    });
}

/// The lines about one GPU.
pub(super) fn of(
    figures: &Figures,
    view: View,
    directory: &Directory,
    cgroups: &HashMap<u64, Name>,
) -> Vec<Row> {
    let stat = &figures.stat;
    let part = |ns: u64| (stat.span_ns > 0).then(|| ns as f64 / stat.span_ns as f64);
    let of_client = |client: &Client| Row {
        gpu: figures.gpu(),
        id: client.id,
        pid: client.pid,
        user: directory.user(client.uid).to_string(),
        name: client.comm.to_string(),
        count: client.channels,
        weight: client.weight,
        limit: client.limit,
        share: client.share,
        copy: client.copy_share,
        entitled: client.entitled,
        waited: part(client.waited_ns),
        ahead_ns: client.vtime_ahead_ns,
        throttled_count: client.throttled_count,
        state: table::state(client),
        history: history(&figures.clients, client.id),
    };
    let of_group = |group: &Group| Row {
        gpu: figures.gpu(),
        id: group.id,
        name: group_name(group, &stat.clients, directory, cgroups),
        count: group.members,
        weight: group.weight,
        share: group.share,
        copy: group.copy_time_ns.and_then(part),
        entitled: group.entitled,
        waited: part(group.waited_ns),
        ahead_ns: group.vtime_ahead_ns,
        throttled_count: group.throttled_count,
        state: if group.throttled { "throttled" } else { "" }.to_string(),
        history: history(&figures.groups, group.id),
        ..Row::default()
    };
    match view {
        View::Clients => stat.clients.iter().map(of_client).collect(),
        View::Groups => stat.groups.iter().map(of_group).collect(),
    }
}

fn history(histories: &HashMap<u64, History>, id: u64) -> History {
    histories.get(&id).cloned().unwrap_or_default()
}

fn group_name(
    group: &Group,
    clients: &[Client],
    directory: &Directory,
    cgroups: &HashMap<u64, Name>,
) -> String {
    match group.kind.as_str() {
        "user" => u32::try_from(group.key).map_or_else(
            |_| group.key.to_string(),
            |uid| directory.user(uid).to_string(),
        ),
        "cgroup" => {
            let path = cgroups.get(&group.key);
            path.map_or_else(|| group.key.to_string(), Name::to_string)
        }
        _ => {
            let client = clients.iter().find(|client| client.group == group.id);
            client.map_or_else(
                || "(gone)".to_string(),
                |client| format!("{} {}", client.pid, client.comm),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u64, share: Option<f64>, name: &str) -> Row {
        Row {
            id,
            share,
            name: name.to_string(),
            ..Row::default()
        }
    }

    #[test]
    fn every_column_sorts_both_ways_and_ties_stay_in_order() {
        let mut rows = [
            row(3, None, "a"),
            row(2, Some(0.5), "b"),
            row(1, Some(0.5), "c"),
            row(4, Some(0.0), "d"),
        ];
        let ids = |rows: &[Row]| -> Vec<u64> { rows.iter().map(|row| row.id).collect() };
        sort(&mut rows, Column::Share, true);
        assert_eq!(ids(&rows), [1, 2, 4, 3]);
        sort(&mut rows, Column::Share, false);
        assert_eq!(ids(&rows), [3, 4, 1, 2]);
        sort(&mut rows, Column::Name, true);
        assert_eq!(ids(&rows), [4, 1, 2, 3]);
        for column in OF_CLIENTS {
            sort(&mut rows, *column, true);
            let most = rows[0].clone();
            assert_ne!(most.order(&rows[3], *column), Ordering::Less, "{column:?}");
        }
    }

    #[test]
    fn narrow_screen_keeps_the_essential_columns_and_the_sorted_one() {
        let all = View::Clients.columns_within(500, true, Column::Share);
        assert_eq!(all, OF_CLIENTS);
        let few = View::Clients.columns_within(70, true, Column::Ahead);
        assert!(few.contains(&Column::Ahead));
        assert!(!few.contains(&Column::Count));
        for column in [Column::Pid, Column::Name, Column::Share, Column::State] {
            assert!(few.contains(&column), "{few:?}");
        }
    }

    #[test]
    fn column_of_copies_is_there_where_they_are_measured() {
        for view in [View::Clients, View::Groups] {
            assert!(view.columns(true).contains(&Column::Copy));
            assert!(!view.columns(false).contains(&Column::Copy));
            assert_eq!(view.columns(true).len(), view.columns(false).len() + 1);
        }
        // As wide as on a screen of 80.
        let few = View::Clients.columns_within(68, true, Column::Share);
        assert!(few.contains(&Column::Copy), "{few:?}");
    }
}
