// SPDX-License-Identifier: GPL-2.0

//! Tests of the screen of `loga top`.

use super::*;
use crate::terminal::Capabilities;
use crate::top::app::tests::app;
use loga::uapi;
use proptest::prelude::*;
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
    assert!(lines[4].contains("SHARE▼"));
    assert!(lines[4].contains("STATE"));
    assert!(!lines[4].contains("VTIME"), "{}", lines[4]);
    assert!(lines[8].ends_with("+- interval"), "{}", lines[8]);
    assert!(lines[5].contains("60.0 %"), "{}", lines[5]);
    assert!(lines[5].ends_with('█'), "{}", lines[5]);
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
    assert!(lines[4].contains("COPY▼"));
    assert!(lines[4].contains("STATE"));
    assert!(lines[5].contains("15.0 %  45.0 %"), "{}", lines[5]);
    app.key(KeyEvent::from(KeyCode::Char('v')));
    let lines = drawn(&mut app, 80, 10);
    assert!(lines[5].contains("15.0 %  45.0 %"), "{}", lines[5]);
    // GPU 1 has none: lines are sorted by share then.
    app.key(KeyEvent::from(KeyCode::Char('g')));
    app.key(KeyEvent::from(KeyCode::Char('g')));
    let lines = drawn(&mut app, 80, 10);
    assert!(lines[4].contains("SHARE▼"));
    assert!(!lines[4].contains("COPY"));
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
fn smallest_screens_show_whole_words() {
    let lines = drawn(&mut app(), 20, 5);
    assert_eq!(lines[0], "clients of all GPUs");
    assert_eq!(lines[1], "GPU 0 busy  75.0 %");
    assert!(lines[2].starts_with("COMMAND"), "{lines:?}");
    assert!(lines[3].starts_with("throttle"), "{lines:?}");
    assert!(lines[3].ends_with("60.0 %"), "{lines:?}");
    assert_eq!(lines[4], "q quit h help");
    let lines = drawn(&mut app(), 20, 1);
    assert!(lines[0].starts_with("throttle"), "{lines:?}");
}

#[test]
fn large_screen_is_used_for_high_histories() {
    let lines = drawn(&mut app(), 300, 100);
    // The newest shares stand at the right end: that of the first client is the largest.
    let ends = |line: &&String| line.ends_with('█');
    assert!(lines.iter().filter(ends).count() >= 10, "{lines:?}");
    assert!(lines[1].starts_with("GPU 0 0001:01:00.0 event enforcing"));
    assert!(lines[99].ends_with("+- interval"));
}

#[test]
fn help_covers_the_screen_and_scrolls() {
    let mut app = app();
    app.key(KeyEvent::from(KeyCode::Char('?')));
    let lines = drawn(&mut app, 80, 24);
    assert!(lines[0].starts_with("loga top: help"));
    assert!(lines.iter().any(|line| line.contains("longer between")));
    app.key(KeyEvent::from(KeyCode::PageDown));
    let lines = drawn(&mut app, 80, 24);
    assert!(lines.iter().any(|line| line.contains("ENTITLED")));
}

#[test]
fn plain_screen_is_ascii_in_one_colour() {
    let mut app = app().on(Capabilities {
        unicode: false,
        colours: false,
    });
    let mut terminal = Terminal::new(TestBackend::new(140, 24)).expect("a terminal");
    terminal.draw(|frame| draw(&mut app, frame)).expect("draws");
    let cells = &terminal.backend().buffer().content;
    assert!(cells.iter().all(|cell| cell.symbol().is_ascii()));
    assert!(cells
        .iter()
        .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    let lines = drawn(&mut app, 140, 10);
    assert!(lines[4].contains("SHAREv"), "{}", lines[4]);
    assert!(lines[5].ends_with('#'), "{lines:?}");
    assert!(lines[6].ends_with('.'), "{lines:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_size_shows_the_first_client_if_there_is_room(
        width in prop_oneof![0u16..24, 0u16..=320],
        height in prop_oneof![0u16..10, 0u16..=120],
        keys in proptest::collection::vec(proptest::sample::select(b"hvgr <>".to_vec()), 0..4),
        copies: bool,
        unicode: bool,
    ) {
        let mut app = if copies { copying() } else { app() };
        app = app.on(Capabilities { unicode, colours: unicode });
        for key in keys {
            app.key(KeyEvent::from(KeyCode::Char(char::from(key))));
            drawn(&mut app, width, height);
        }
        if app.help.is_some() {
            app.key(KeyEvent::from(KeyCode::Esc));
        }
        let lines = drawn(&mut app, width, height);
        if width >= 8 && height >= 1 {
            // The groups of the test belong to no client.
            let names = ["throttle", "(gone)"];
            let is_there = |line: &String| names.iter().any(|name| line.contains(name));
            let name = lines.iter().any(is_there);
            prop_assert!(name, "{lines:?}");
        }
    }
}

#[test]
fn groups_are_named_by_what_they_are() {
    let mut app = app();
    app.key(KeyEvent::from(KeyCode::Char('v')));
    let lines = drawn(&mut app, 120, 10);
    assert!(lines[0].starts_with("loga top: groups of all GPUs"));
    assert!(lines[4].contains("GROUP"));
    assert!(!lines[4].contains("PID"));
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
