// SPDX-License-Identifier: GPL-2.0

//! [tool] The screen of `loga top`: a line per GPU, the table of clients or groups with a history of
//! shares, and the keys.

use super::app::{App, Column, View};
use super::figures::{Figures, History};
use super::rows::Row;
use crate::table;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline, Table};
use ratatui::{widgets, Frame};

/// Least width of a history.
const HISTORY_WIDTH: u16 = 12;

/// Width of the text about a GPU.
const GPU_WIDTH: u16 = 82;

/// What copies add to it, on all lines if any GPU's are measured.
const COPY_WIDTH: u16 = 13;

/// Full height of a GPU's history: all of the time, in thousandths.
const WHOLE: u64 = 1000;

/// Least full height of the clients' histories, in thousandths.
const LEAST_HEIGHT: u64 = 10;

/// Title of the histories, if there is room for it.
const HISTORY_TITLE: &str = "newest at the right, 0 to ";

/// How far above its entitlement a share is pointed out.
const ABOVE: f64 = 0.02;

/// What the keys do.
const KEYS: [(&str, &str); 8] = [
    ("q", "quit"),
    ("←→", "sort"),
    ("r", "reverse"),
    ("v", "view"),
    ("g", "GPU"),
    ("↑↓", "scroll"),
    ("space", "pause"),
    ("+-", "interval"),
];

/// Draws everything.
pub fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let gpus = u16::try_from(app.gpus.len()).unwrap_or(u16::MAX);
    // Many GPUs leave half of the screen to the clients.
    let gpus = gpus.min(frame.area().height / 2);
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(gpus),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [title, summary, _, lines, keys] = parts.areas(frame.area());
    frame.render_widget(Line::from(headline(app)).style(Modifier::BOLD), title);
    let copies = app.gpus.iter().any(Figures::copies);
    for (figures, y) in app.gpus.iter().zip(summary.top()..summary.bottom()) {
        let area = Rect {
            y,
            height: 1,
            ..summary
        };
        draw_gpu(figures, copies, area, frame);
    }
    draw_table(app, lines, frame);
    frame.render_widget(key_line(), keys);
}

fn headline(app: &App) -> String {
    let what = match app.view {
        View::Clients => "clients",
        View::Groups => "groups",
    };
    let gpu = app
        .only
        .map_or("all GPUs".to_string(), |gpu| format!("GPU {gpu}"));
    let paused = if app.paused { ", paused" } else { "" };
    format!(
        "loga top: {what} of {gpu}, every {} s{paused}",
        app.interval.as_secs_f64()
    )
}

fn draw_gpu(figures: &Figures, copies: bool, area: Rect, frame: &mut Frame<'_>) {
    let stat = &figures.stat;
    let mode = match (stat.lost, stat.away, stat.enforcing) {
        (true, _, _) => "LOST",
        (false, true, _) => "AWAY",
        (false, false, true) => "enforcing",
        (false, false, false) => "accounting",
    };
    let throttled = stat
        .clients
        .iter()
        .filter(|one| one.state == "throttled")
        .count();
    let copy = if copies {
        format!(" copy {:>7}", table::percent(stat.copy_busy))
    } else {
        String::new()
    };
    let text = |idle: &str| {
        format!(
            "GPU {} {} {} {mode} busy {:>7}{copy}{idle} clients {} throttled {throttled}",
            stat.gpu,
            stat.pci,
            stat.policy,
            table::percent(stat.busy),
            stat.clients.len(),
        )
    };
    let long = text(&format!(" idle {:>7}", table::percent(stat.idle)));
    let room = usize::from(area.width.saturating_sub(HISTORY_WIDTH + 1));
    let text = if !copies || long.len() <= room {
        long
    } else {
        // What copies take is in no other figure of the line.
        text("")
    };
    let width = if copies {
        GPU_WIDTH + COPY_WIDTH
    } else {
        GPU_WIDTH
    };
    let columns = [Constraint::Max(width), Constraint::Min(HISTORY_WIDTH)];
    let [left, right] = Layout::horizontal(columns).spacing(1).areas(area);
    let style = if stat.lost || stat.away {
        Style::from(Color::Red)
    } else {
        Style::default()
    };
    frame.render_widget(Span::styled(text, style), left);
    draw_history(&figures.busy, WHOLE, right, frame);
}

fn draw_history(history: &History, height: u64, area: Rect, frame: &mut Frame<'_>) {
    let graph = Sparkline::default()
        .data(history.iter().copied())
        .max(height)
        .direction(RenderDirection::RightToLeft)
        .style(Color::Cyan);
    frame.render_widget(graph, area);
}

fn draw_table(app: &mut App, area: Rect, frame: &mut Frame<'_>) {
    app.page = usize::from(area.height.saturating_sub(1)).max(1);
    app.scroll_to(app.first);
    let room = area.width.saturating_sub(HISTORY_WIDTH);
    let columns = app.view.columns_within(room, app.copies(), app.column);
    let used: u16 = columns.iter().map(|column| column.width() + 1).sum();
    let parts = [Constraint::Max(used), Constraint::Min(HISTORY_WIDTH)];
    let [left, right] = Layout::horizontal(parts).areas(area);
    let rows = app.rows();
    if rows.is_empty() {
        frame.render_widget(Paragraph::new("no clients").centered(), area);
        return;
    }
    let shown = rows.iter().skip(app.first).take(app.page);
    let widths = columns
        .iter()
        .map(|column| Constraint::Length(column.width()));
    let header = widgets::Row::new(columns.iter().map(|column| title(app, *column)));
    let lines = shown.clone().map(|row| line(row, &columns));
    let table = Table::new(lines, widths)
        .header(header.style(Modifier::REVERSED))
        .column_spacing(1);
    frame.render_widget(table, left);
    let height = height(shown.clone(), right.width);
    let above = Line::from(history_title(height, right.width));
    let top = Rect { height: 1, ..right };
    frame.render_widget(above.style(Modifier::REVERSED), top);
    for (row, y) in shown.zip(right.top().saturating_add(1)..right.bottom()) {
        let area = Rect {
            y,
            height: 1,
            ..right
        };
        draw_history(&row.history, height, area, frame);
    }
}

/// The largest share that is shown: all histories have its height, so that they can be compared and
/// the small ones seen.
fn height<'a>(rows: impl Iterator<Item = &'a Row>, width: u16) -> u64 {
    let shares = rows.flat_map(|row| row.history.iter().take(usize::from(width)));
    shares.copied().max().unwrap_or(0).max(LEAST_HEIGHT)
}

fn history_title(height: u64, width: u16) -> String {
    let scale = format!("{} %", height.div_ceil(10));
    let long = format!("{HISTORY_TITLE}{scale}");
    if long.len() <= usize::from(width) {
        long
    } else {
        format!("0 to {scale}")
    }
}

fn aligned(column: Column, text: String) -> Text<'static> {
    Text::from(text).alignment(if column.is_text() {
        Alignment::Left
    } else {
        Alignment::Right
    })
}

fn title(app: &App, column: Column) -> Text<'static> {
    let mark = match (app.column == column, app.descending) {
        (false, _) => "",
        (true, true) => "▼",
        (true, false) => "▲",
    };
    aligned(column, format!("{}{mark}", column.title(app.view)))
}

fn line(row: &Row, columns: &[Column]) -> widgets::Row<'static> {
    let above = row
        .share
        .zip(row.entitled)
        .is_some_and(|(share, entitled)| share > entitled + ABOVE);
    let style = match (row.is_throttled(), above) {
        (true, _) => Style::from(Color::Red),
        (false, true) => Style::from(Color::Yellow),
        (false, false) => Style::default(),
    };
    let cells = columns
        .iter()
        .map(|column| aligned(*column, row.cell(*column)));
    widgets::Row::new(cells).style(style)
}

fn key_line() -> Line<'static> {
    let mut spans = Vec::new();
    for (key, what) in KEYS {
        spans.push(Span::styled(key, Modifier::REVERSED));
        spans.push(Span::raw(format!(" {what} ")));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::app::tests::app;
    use loga::uapi;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};
    use ratatui::Terminal;

    fn drawn(app: &mut App, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(app, frame)).expect("draws");
        let buffer = terminal.backend().buffer();
        let row = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
        (0..height).map(|y| row(y).trim_end().to_string()).collect()
    }

    #[test]
    fn wide_screen_has_gpus_clients_histories_and_keys() {
        let lines = drawn(&mut app(), 140, 10);
        assert_eq!(lines[0], "loga top: clients of all GPUs, every 1 s");
        assert!(lines[1].starts_with("GPU 0 0001:01:00.0 event enforcing busy  75.0 % idle"));
        // One interval of three quarters, at the right end.
        assert!(lines[1].ends_with('▆'), "{}", lines[1]);
        assert!(lines[2].starts_with("GPU 1 "));
        assert!(lines[4].contains("SHARE▼"), "{}", lines[4]);
        let words: Vec<&str> = lines[5].split_whitespace().collect();
        assert_eq!(words[..4], ["0", "102", "0", "throttle"]);
        assert!(lines[5].contains("60.0 %"), "{}", lines[5]);
        assert!(lines[5].ends_with('█'), "{}", lines[5]);
        // The other client had a quarter of the largest share.
        assert!(lines[6].ends_with('▂'), "{}", lines[6]);
        assert!(lines[4].ends_with("0 to 60 %"), "{}", lines[4]);
        assert!(lines[9].starts_with("q quit "), "{}", lines[9]);
    }

    #[test]
    fn narrow_screen_still_has_share_state_and_history() {
        let lines = drawn(&mut app(), 80, 9);
        assert!(lines[4].contains("SHARE▼") && lines[4].contains("STATE"));
        assert!(!lines[4].contains("VTIME"), "{}", lines[4]);
        assert!(lines[8].ends_with("+- interval"), "{}", lines[8]);
        assert!(
            lines[5].contains("60.0 %") && lines[5].ends_with('█'),
            "{}",
            lines[5]
        );
    }

    /// As [`app`], with copies of GPU 0: 45 % of client 1, 15 % of client 2.
    fn copying() -> App {
        let mut app = App::new(Default::default(), std::time::Duration::from_secs(1));
        for times in 1..3 {
            let mut one = crate::stat::tests::snapshot(times);
            let mut other = crate::stat::tests::snapshot(times);
            (other.gpu, other.clients[0].id) = (1, 7);
            one.info.flags |= uapi::GPU_COPIES;
            one.info.copy_polled_ns = times * 100_000_000;
            one.info.copy_idle_ns = times * 40_000_000;
            one.clients[0].copy_time_ns = times * 270_000_000;
            one.clients[1].copy_time_ns = times * 90_000_000;
            one.groups[0].copy_time_ns = times * 270_000_000;
            app.update(vec![one, other]);
        }
        app
    }

    #[test]
    fn copies_have_a_column_beside_the_share_and_a_part_of_the_line_of_the_gpu() {
        let lines = drawn(&mut copying(), 160, 11);
        let of_gpu = "busy  75.0 % copy  60.0 % idle  25.0 % clients 2 throttled 0";
        assert!(lines[1].contains(of_gpu), "{}", lines[1]);
        // That of the other GPU is not measured.
        assert!(lines[2].contains("copy       - idle"), "{}", lines[2]);
        let words: Vec<&str> = lines[4].split_whitespace().collect();
        let at = words.iter().position(|word| *word == "SHARE▼");
        assert_eq!(at.map(|at| words[at + 1]), Some("COPY"), "{}", lines[4]);
        assert!(lines[5].contains("60.0 %  15.0 %"), "{}", lines[5]);
        assert!(lines[6].contains("60.0 %       -"), "{}", lines[6]);
        assert!(lines[7].contains("15.0 %  45.0 %"), "{}", lines[7]);
    }

    #[test]
    fn narrow_screen_shows_copies_and_sorts_by_them() {
        let mut app = copying();
        app.key(KeyEvent::from(KeyCode::Right));
        let lines = drawn(&mut app, 80, 10);
        assert!(lines[1].contains("busy  75.0 % copy  60.0 %"));
        assert!(lines[4].contains("COPY▼") && lines[4].contains("STATE"));
        assert!(lines[5].contains("15.0 %  45.0 %"), "{}", lines[5]);
        app.key(KeyEvent::from(KeyCode::Char('v')));
        let lines = drawn(&mut app, 80, 10);
        assert!(lines[5].contains("15.0 %  45.0 %"), "{}", lines[5]);
        // GPU 1 has none: lines are sorted by share then.
        app.key(KeyEvent::from(KeyCode::Char('g')));
        app.key(KeyEvent::from(KeyCode::Char('g')));
        let lines = drawn(&mut app, 80, 10);
        assert!(lines[4].contains("SHARE▼") && !lines[4].contains("COPY"));
    }

    #[test]
    fn shares_of_copies_stay_within_a_phase() {
        let mut app = copying();
        let before = drawn(&mut app, 160, 11);
        let same = |one: &Figures| one.snapshot().clone();
        let again = app.gpus.iter().map(same).collect();
        app.update(again);
        assert_eq!(drawn(&mut app, 160, 11), before);
    }

    #[test]
    fn tiny_screens_do_not_break_it() {
        for width in [1, 5, 20, 40] {
            for height in [1, 2, 3, 5] {
                drawn(&mut app(), width, height);
                drawn(&mut copying(), width, height);
            }
        }
    }

    #[test]
    fn groups_are_named_by_what_they_are() {
        let mut app = app();
        app.key(KeyEvent::from(KeyCode::Char('v')));
        let lines = drawn(&mut app, 120, 10);
        assert!(lines[0].starts_with("loga top: groups of all GPUs"));
        assert!(lines[4].contains("GROUP") && !lines[4].contains("PID"));
        assert!(lines[5].contains("15.0 %"), "{}", lines[5]);
    }

    #[test]
    fn gpu_without_clients_says_so() {
        let mut app = app();
        let mut empty = crate::stat::tests::snapshot(3);
        empty.clients.clear();
        empty.info.flags |= uapi::GPU_LOST;
        app.update(vec![empty]);
        let lines = drawn(&mut app, 100, 8);
        assert!(lines[1].contains(" LOST "), "{}", lines[1]);
        assert!(lines.iter().any(|line| line.contains("no clients")));
    }

    #[test]
    fn list_longer_than_the_screen_scrolls() {
        let mut app = app();
        let first = drawn(&mut app, 120, 7);
        assert!(first[5].contains(" 102 "), "{first:?}");
        app.key(KeyEvent::from(KeyCode::Down));
        let second = drawn(&mut app, 120, 7);
        assert!(second[5].contains(" 101 "), "{second:?}");
    }
}
