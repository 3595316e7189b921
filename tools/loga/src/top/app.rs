// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The state of `loga top`, and what keys do to it.

use super::figures::Figures;
use super::help;
use super::rows;
pub use super::rows::Column;
use super::rows::Row;
pub use super::rows::View;
use crate::control::Snapshot;
use crate::directory::Directory;
use crate::names::Name;
use crate::terminal::Capabilities;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::collections::HashMap;
use std::time::Duration;

/// Times between two snapshots that can be chosen.
const INTERVALS_MS: [u64; 8] = [100, 200, 500, 1000, 2000, 5000, 10_000, 60_000];

/// Lines by which the help is scrolled at once.
const HELP_PAGE: u16 = 10;

/// Everything that is shown.
#[derive(Debug)]
pub struct App {
    pub(super) gpus: Vec<Figures>,
    directory: Directory,
    cgroups: HashMap<u64, Name>,
    pub(super) view: View,
    pub(super) column: Column,
    pub(super) descending: bool,
    /// The only GPU shown, if there is one.
    pub(super) only: Option<u32>,
    /// First line that is shown.
    pub(super) first: usize,
    /// Lines that fit on the screen.
    pub(super) page: usize,
    pub(super) paused: bool,
    pub(super) interval: Duration,
    /// First line of the help, while that is shown.
    pub(super) help: Option<u16>,
    /// What the terminal shows.
    pub(super) capabilities: Capabilities,
    finished: bool,
}

impl App {
    /// Sorted by share, the largest first.
    pub fn new(directory: Directory, interval: Duration) -> Self {
        App {
            gpus: Vec::new(),
            directory,
            cgroups: HashMap::new(),
            view: View::Clients,
            column: Column::Share,
            descending: true,
            only: None,
            first: 0,
            page: 1,
            paused: false,
            interval,
            help: None,
            capabilities: Capabilities {
                unicode: true,
                colours: true,
            },
            finished: false,
        }
    }

    /// The same on a terminal that shows this.
    #[must_use]
    pub const fn on(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Takes the next snapshot of all GPUs.
    pub fn update(&mut self, snapshots: Vec<Snapshot>) {
        let mut old = std::mem::take(&mut self.gpus);
        for snapshot in snapshots {
            let at = old.iter().position(|one| one.gpu() == snapshot.gpu);
            self.gpus.push(match at {
                Some(at) => {
                    let mut figures = old.swap_remove(at);
                    figures.update(snapshot);
                    figures
                }
                None => Figures::new(snapshot),
            });
        }
        let grouped = |one: &Figures| one.stat.group_by == "cgroup";
        if self.view == View::Groups && self.gpus.iter().any(grouped) {
            self.cgroups = self.directory.cgroup_paths();
        }
        self.stay_on_a_column();
    }

    /// Whether refreshing is paused.
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the user has seen enough.
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Time between two snapshots.
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// The lines of the table in their order.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .gpus
            .iter()
            .filter(|one| self.is_shown(one))
            .flat_map(|one| rows::of(one, self.view, &self.directory, &self.cgroups))
            .collect();
        rows::sort(&mut rows, self.column, self.descending);
        rows
    }

    /// Answers a key.
    pub fn key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => self.finished = true,
            code if self.help.is_some() => self.answer_in_help(code),
            // No letter together with another key is the letter alone.
            _ if control => {}
            KeyCode::Char('h' | '?') => self.help = Some(0),
            KeyCode::Char('q') | KeyCode::Esc => self.finished = true,
            KeyCode::Left | KeyCode::Char('<') => self.move_column(false),
            KeyCode::Right | KeyCode::Char('>') => self.move_column(true),
            KeyCode::Char('r') => self.descending = !self.descending,
            KeyCode::Char('v') => self.other_view(),
            KeyCode::Char('g') => self.next_gpu(),
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('+') => self.interval = longer(self.interval),
            KeyCode::Char('-') => self.interval = shorter(self.interval),
            KeyCode::Down => self.scroll_to(self.first.saturating_add(1)),
            KeyCode::Up => self.scroll_to(self.first.saturating_sub(1)),
            KeyCode::PageDown => self.scroll_to(self.first.saturating_add(self.page)),
            KeyCode::PageUp => self.scroll_to(self.first.saturating_sub(self.page)),
            KeyCode::Home => self.scroll_to(0),
            KeyCode::End => self.scroll_to(usize::MAX),
            _ => {}
        }
    }

    /// Scrolls the help, or leaves it.
    fn answer_in_help(&mut self, code: KeyCode) {
        let first = self.help.unwrap_or(0);
        let last = u16::try_from(help::lines().saturating_sub(1)).unwrap_or(u16::MAX);
        let moved = match code {
            KeyCode::Down => Some(first.saturating_add(1)),
            KeyCode::Up => Some(first.saturating_sub(1)),
            KeyCode::PageDown => Some(first.saturating_add(HELP_PAGE)),
            KeyCode::PageUp => Some(first.saturating_sub(HELP_PAGE)),
            _ => None,
        };
        self.help = moved.map(|first| first.min(last));
    }

    fn move_column(&mut self, right: bool) {
        let columns = self.view.columns(self.copies());
        let at = columns.iter().position(|column| *column == self.column);
        let step = if right { 1 } else { columns.len() - 1 };
        let at = (at.unwrap_or(0) + step) % columns.len();
        self.column = columns[at];
    }

    fn other_view(&mut self) {
        self.view = match self.view {
            View::Clients => View::Groups,
            View::Groups => View::Clients,
        };
        self.stay_on_a_column();
        self.first = 0;
    }

    /// All GPUs, then each one, then all again.
    fn next_gpu(&mut self) {
        let at = self
            .only
            .and_then(|only| self.gpus.iter().position(|one| one.gpu() == only));
        let next = match (self.only, at) {
            (None, _) => self.gpus.first(),
            (Some(_), Some(at)) => self.gpus.get(at + 1),
            (Some(_), None) => None,
        };
        self.only = next.map(Figures::gpu);
        self.stay_on_a_column();
        self.first = 0;
    }

    /// Sorts by share if the column that lines are sorted by is not there any more.
    fn stay_on_a_column(&mut self) {
        let columns = self.view.columns(self.copies());
        if !columns.contains(&self.column) {
            self.column = Column::Share;
        }
    }

    fn is_shown(&self, gpu: &Figures) -> bool {
        self.only.is_none_or(|only| only == gpu.gpu())
    }

    /// Whether copies are measured on a GPU that is shown, or were.
    pub(super) fn copies(&self) -> bool {
        let mut shown = self.gpus.iter().filter(|one| self.is_shown(one));
        shown.any(Figures::copies)
    }

    /// Shows line `first` at the top, but no empty lines below the last one.
    pub(super) fn scroll_to(&mut self, first: usize) {
        let last = self.rows().len().saturating_sub(self.page);
        self.first = first.min(last);
    }
}

fn longer(interval: Duration) -> Duration {
    let mut choices = INTERVALS_MS.iter().map(|ms| Duration::from_millis(*ms));
    choices.find(|one| *one > interval).unwrap_or(interval)
}

fn shorter(interval: Duration) -> Duration {
    let mut choices = INTERVALS_MS
        .iter()
        .rev()
        .map(|ms| Duration::from_millis(*ms));
    choices.find(|one| *one < interval).unwrap_or(interval)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::stat::tests::snapshot;

    /// Two GPUs after two snapshots.
    pub(crate) fn app() -> App {
        let mut app = App::new(Directory::default(), Duration::from_secs(1));
        for times in 1..3 {
            let mut other = snapshot(times);
            other.gpu = 1;
            other.clients[0].id = 7;
            other.clients.truncate(1);
            app.update(vec![snapshot(times), other]);
        }
        app
    }

    fn press(app: &mut App, codes: &[KeyCode]) {
        for code in codes {
            app.key(KeyEvent::from(*code));
        }
    }

    fn pids(app: &App) -> Vec<String> {
        let rows = app.rows();
        rows.iter().map(|row| row.cell(Column::Pid)).collect()
    }

    #[test]
    fn arrows_choose_the_column_and_r_the_direction() {
        let mut app = app();
        assert_eq!(pids(&app), ["102", "101", "101"]);
        press(&mut app, &[KeyCode::Char('r')]);
        assert_eq!(pids(&app), ["101", "101", "102"]);
        press(&mut app, &[KeyCode::Left; 6]);
        assert_eq!(app.column, Column::Pid);
        press(&mut app, &[KeyCode::Left; 2]);
        assert_eq!(app.column, Column::State);
        press(&mut app, &[KeyCode::Right]);
        assert_eq!(app.column, Column::Gpu);
    }

    #[test]
    fn g_goes_through_the_gpus_and_back_to_all() {
        let mut app = app();
        let mut shown = Vec::new();
        for _ in 0..4 {
            press(&mut app, &[KeyCode::Char('g')]);
            shown.push((app.only, app.rows().len()));
        }
        let expected = [(Some(0), 2), (Some(1), 1), (None, 3), (Some(0), 2)];
        assert_eq!(shown, expected);
    }

    #[test]
    fn v_shows_groups_and_leaves_a_column_they_lack() {
        let mut app = app();
        press(&mut app, &[KeyCode::Left; 6]);
        press(&mut app, &[KeyCode::Char('v')]);
        assert_eq!((app.view, app.column), (View::Groups, Column::Share));
        assert_eq!(app.rows().len(), 2);
    }

    #[test]
    fn scrolling_stops_at_both_ends() {
        let mut app = app();
        app.page = 2;
        press(&mut app, &[KeyCode::Up]);
        assert_eq!(app.first, 0);
        press(&mut app, &[KeyCode::PageDown, KeyCode::Down]);
        assert_eq!(app.first, 1);
        press(&mut app, &[KeyCode::Home, KeyCode::End]);
        assert_eq!(app.first, 1);
    }

    #[test]
    fn interval_pause_and_end_have_keys() {
        let mut app = app();
        press(&mut app, &[KeyCode::Char('+')]);
        assert_eq!(app.interval(), Duration::from_secs(2));
        press(&mut app, &[KeyCode::Char('-'); 20]);
        assert_eq!(app.interval(), Duration::from_millis(100));
        press(&mut app, &[KeyCode::Char(' ')]);
        assert!(app.is_paused());
        assert!(!app.is_finished());
        let stop = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        app.key(stop);
        assert!(app.is_finished());
    }

    #[test]
    fn help_has_two_keys_scrolls_and_any_other_key_leaves_it() {
        let mut app = app();
        press(&mut app, &[KeyCode::Char('?')]);
        assert_eq!(app.help, Some(0));
        press(&mut app, &[KeyCode::Up, KeyCode::Down, KeyCode::Down]);
        assert_eq!(app.help, Some(2));
        press(&mut app, &[KeyCode::PageDown; 30]);
        assert!(app
            .help
            .is_some_and(|first| usize::from(first) < help::lines()));
        press(&mut app, &[KeyCode::Char('q')]);
        assert!(app.help.is_none());
        assert!(!app.is_finished());
        press(&mut app, &[KeyCode::Char('h'), KeyCode::Esc]);
        assert!(app.help.is_none());
        assert!(!app.is_finished());
    }

    #[test]
    fn gpu_that_goes_away_takes_its_lines_along() {
        let mut app = app();
        app.update(vec![snapshot(3)]);
        assert_eq!(app.rows().len(), 2);
    }
}
