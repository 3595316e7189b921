// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The screen of `loga top`: a line per GPU, the table of clients or groups with a history of
//! shares, and the keys; or the help.

use super::app::{App, Column, View};
use super::figures::{Figures, History};
use super::layout::{Lines, HIGHEST};
use super::rows::Row;
use super::{help, plain, summary};
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline, Table};
use ratatui::{widgets, Frame};

/// Least width of a history.
const HISTORY_WIDTH: u16 = 12;

/// Width of a history that long names leave.
const HISTORY_WIDE: u16 = 60;

/// Least width of a screen on which GPUs have histories.
const GPU_HISTORIES: u16 = 60;

/// Full height of a GPU's history: all of the time, in thousandths.
const WHOLE: u64 = 1000;

/// Least full height of the clients' histories, in thousandths.
const LEAST_HEIGHT: u64 = 10;

/// Title of the histories, if there is room for it.
const HISTORY_TITLE: &str = "newest at the right, 0 to ";

/// How far above its entitlement a share is pointed out.
const ABOVE: f64 = 0.02;

/// What the keys do; a narrow screen shows the first ones.
const KEYS: [(&str, &str); 9] = [
    ("q", "quit"),
    ("h", "help"),
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
    match app.help {
        Some(first) => {
            let text = Paragraph::new(help::TEXT).scroll((first, 0));
            frame.render_widget(text, frame.area());
        }
        None => draw_figures(app, frame),
    }
    plain::simplify(frame.buffer_mut(), app.capabilities);
}

fn draw_figures(app: &mut App, frame: &mut Frame<'_>) {
    let area = frame.area();
    let highest = if has_histories(app, area.width) {
        HIGHEST
    } else {
        1
    };
    let lines = Lines::new(area.height, app.gpus.len(), app.rows().len(), highest);
    let mut top = area.top();
    let mut part = |height: u16| {
        let y = top;
        top = top.saturating_add(height).min(area.bottom());
        Rect {
            y,
            height: top.saturating_sub(y),
            ..area
        }
    };
    let line = Line::from(headline(app, area.width)).style(Modifier::BOLD);
    frame.render_widget(line, part(lines.headline));
    let gpus = part(lines.gpus.saturating_mul(lines.of_gpu));
    draw_gpus(app, gpus, lines.of_gpu, frame);
    part(lines.space);
    let table = part(lines.titles.saturating_add(lines.clients));
    draw_table(app, table, &lines, frame);
    frame.render_widget(key_line(area.width), part(lines.keys));
}

/// Whether a screen so wide has room for histories of clients.
fn has_histories(app: &App, width: u16) -> bool {
    width >= app.view.least_width().saturating_add(HISTORY_WIDTH)
}

/// The longest headline that fits.
fn headline(app: &App, width: u16) -> String {
    let what = match app.view {
        View::Clients => "clients",
        View::Groups => "groups",
    };
    let gpu = app
        .only
        .map_or("all GPUs".to_string(), |gpu| format!("GPU {gpu}"));
    let every = app.interval.as_secs_f64();
    let paused = if app.paused { ", paused" } else { "" };
    let forms = [
        format!("loga top: {what} of {gpu}, every {every} s{paused}"),
        format!("{what} of {gpu}, every {every} s{paused}"),
        format!("{what} of {gpu}{paused}"),
        format!("{what}{paused}"),
    ];
    let last = if app.paused { "paused" } else { what };
    let fits = |form: &String| form.len() <= usize::from(width);
    let form = forms.into_iter().find(fits);
    form.unwrap_or_else(|| last.to_string())
}

/// A line for each GPU, and at its right end a history that may be higher.
fn draw_gpus(app: &App, area: Rect, height: u16, frame: &mut Frame<'_>) {
    let copies = app.gpus.iter().any(Figures::copies);
    let has_history = area.width >= GPU_HISTORIES;
    let history = if has_history { HISTORY_WIDTH + 1 } else { 0 };
    let room = area.width.saturating_sub(history);
    let lines = summary::lines(&app.gpus, copies, usize::from(room));
    let longest = lines.iter().map(String::len).max().unwrap_or(0);
    let used = columns(longest).min(area.width);
    let tops = (area.top()..area.bottom()).step_by(usize::from(height));
    for ((figures, text), y) in app.gpus.iter().zip(lines).zip(tops) {
        let style = if figures.stat.lost || figures.stat.away {
            Style::from(Color::Red)
        } else {
            Style::default()
        };
        let line = Rect {
            y,
            height: 1,
            ..area
        };
        frame.render_widget(Span::styled(text, style), line);
        if has_history {
            let beside = Rect {
                x: area.x.saturating_add(used).saturating_add(1),
                y,
                width: area.width.saturating_sub(used).saturating_sub(1),
                height: Lines::of_history(height),
            };
            draw_history(&figures.busy, WHOLE, beside, frame);
        }
    }
}

fn draw_history(history: &History, height: u64, area: Rect, frame: &mut Frame<'_>) {
    let graph = Sparkline::default()
        .data(history.iter().copied())
        .max(height)
        .direction(RenderDirection::RightToLeft)
        .style(Color::Cyan);
    frame.render_widget(graph, area);
}

fn draw_table(app: &mut App, area: Rect, lines: &Lines, frame: &mut Frame<'_>) {
    app.page = lines.page();
    app.scroll_to(app.first);
    let rows = app.rows();
    if rows.is_empty() {
        frame.render_widget(Paragraph::new("no clients").centered(), area);
        return;
    }
    let has_history = has_histories(app, area.width);
    let history = if has_history { HISTORY_WIDTH } else { 0 };
    let room = area.width.saturating_sub(history);
    let mut shown = app.view.widths_within(room, app.copies(), app.column);
    let names = rows
        .iter()
        .map(|row| Text::from(row.cell(Column::Name)).width());
    let more = area
        .width
        .saturating_sub(used(&shown))
        .saturating_sub(HISTORY_WIDE);
    lengthen(&mut shown, columns(names.max().unwrap_or(0)), more);
    let left = Rect {
        width: used(&shown).min(area.width),
        ..area
    };
    let page = rows.iter().skip(app.first).take(app.page);
    let cells = page
        .clone()
        .map(|row| line(row, &shown).height(lines.of_client));
    let mut table = Table::new(cells, shown.iter().map(|(_, width)| *width)).column_spacing(1);
    if lines.titles > 0 {
        let titles = shown.iter().map(|(column, _)| title(app, *column));
        table = table.header(widgets::Row::new(titles).style(Modifier::REVERSED));
    }
    frame.render_widget(table, left);
    let right = Rect {
        x: left.right(),
        width: area.width.saturating_sub(left.width),
        ..area
    };
    if has_history {
        draw_histories(page, lines, right, frame);
    }
}

/// The histories of clients, each beside its line, and their title.
fn draw_histories<'a>(
    rows: impl Iterator<Item = &'a Row> + Clone,
    lines: &Lines,
    area: Rect,
    frame: &mut Frame<'_>,
) {
    let height = height(rows.clone(), area.width);
    let above = Line::from(history_title(height, area.width));
    let top = Rect {
        height: lines.titles,
        ..area
    };
    frame.render_widget(above.style(Modifier::REVERSED), top);
    let tops = (top.bottom()..area.bottom()).step_by(usize::from(lines.of_client));
    for (row, y) in rows.zip(tops) {
        let beside = Rect {
            y,
            height: Lines::of_history(lines.of_client),
            ..area
        };
        draw_history(&row.history, height, beside, frame);
    }
}

/// Columns of a text; a screen is at most as wide as the number can be.
fn columns(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}

/// Columns that are used, each with a space behind it.
fn used(columns: &[(Column, u16)]) -> u16 {
    let widths = columns.iter().map(|(_, width)| width.saturating_add(1));
    widths.fold(0, u16::saturating_add)
}

/// Makes room for names that are so long, by `more` at most.
fn lengthen(columns: &mut [(Column, u16)], wanted: u16, more: u16) {
    for (column, width) in columns {
        if *column == Column::Name {
            *width = wanted.clamp(*width, width.saturating_add(more));
        }
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

fn line(row: &Row, columns: &[(Column, u16)]) -> widgets::Row<'static> {
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
        .map(|(column, _)| aligned(*column, row.cell(*column)));
    widgets::Row::new(cells).style(style)
}

/// The first keys, as many as fit.
fn key_line(width: u16) -> Line<'static> {
    let mut line = Line::default();
    for (key, what) in KEYS {
        let key = Span::styled(key, Modifier::REVERSED);
        let what = Span::raw(format!(" {what} "));
        // The last space need not fit.
        if line.width() + key.width() + what.width() > usize::from(width) + 1 {
            break;
        }
        line.push_span(key);
        line.push_span(what);
    }
    line
}

#[cfg(test)]
mod tests;
