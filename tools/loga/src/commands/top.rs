// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga top`: the screen, refreshed at intervals.

use super::{stat, Failure};
use crate::cli;
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::processes::Processes;
use crate::top::app::App;
use crate::top::view;
use ratatui::backend::Backend;
use ratatui::crossterm::event;
use ratatui::crossterm::event::{Event, KeyEvent};
use ratatui::Terminal;
use std::io;
use std::io::Write;
use std::time::{Duration, Instant};

/// Takes over the terminal until the user has seen enough; or prints JSON.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::Top,
    control: &Control<impl Calls>,
    directory: Directory,
    terminal: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if arguments.json {
        let arguments = cli::Stat {
            gpu: arguments.gpu,
            json: true,
            watch: Some(arguments.interval),
            times: arguments.times,
            ..Default::default()
        };
        return stat::run(&arguments, control, &Processes::default(), terminal, out);
    }
    if !terminal {
        let line = "no terminal to draw on: use `loga top --json` or `loga stat --watch 1`";
        return Err(Failure::Said(line.to_string()));
    }
    // Whatever is wrong is said before the screen is taken over.
    control.chosen(arguments.gpu)?;
    let mut screen = ratatui::try_init()?;
    // A terminal without a second screen shows what was there before, and only changes are drawn.
    screen.clear()?;
    let result = follow(arguments, control, directory, &mut screen, keys);
    ratatui::restore();
    result
}

/// Waits for a key, at most for `timeout`. Anything else that happens ends the wait.
fn keys(timeout: Duration) -> io::Result<Option<KeyEvent>> {
    if !event::poll(timeout)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) => Some(key),
        _ => None,
    })
}

fn follow(
    arguments: &cli::Top,
    control: &Control<impl Calls>,
    directory: Directory,
    screen: &mut Terminal<impl Backend>,
    mut keys: impl FnMut(Duration) -> io::Result<Option<KeyEvent>>,
) -> Result<(), Failure> {
    let mut app = App::new(directory, arguments.interval);
    let mut snapshots = arguments.times.unwrap_or(u64::MAX);
    let mut taken: Option<Instant> = None;
    loop {
        let left = |since: Instant| app.interval().saturating_sub(since.elapsed());
        let wait = taken.map_or(Duration::ZERO, left);
        if !wait.is_zero() || app.is_paused() {
            screen.draw(|frame| view::draw(&mut app, frame))?;
            let wait = if app.is_paused() {
                app.interval()
            } else {
                wait
            };
            let said = |error| Failure::Said(format!("cannot read keys: {error}"));
            if let Some(key) = keys(wait).map_err(said)? {
                app.key(key);
            }
            if app.is_finished() {
                return Ok(());
            }
            continue;
        }
        if snapshots == 0 {
            return Ok(());
        }
        snapshots -= 1;
        let mut chosen = control.chosen(arguments.gpu)?;
        Processes::default().rename(&mut chosen);
        app.update(chosen);
        taken = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    fn arguments(times: Option<u64>) -> cli::Top {
        cli::Top {
            gpu: None,
            interval: Duration::from_millis(2),
            json: false,
            times,
        }
    }

    fn screen() -> Terminal<TestBackend> {
        Terminal::new(TestBackend::new(100, 10)).expect("a terminal")
    }

    fn text(screen: &Terminal<TestBackend>) -> String {
        let cells = screen.backend().buffer().content().iter();
        cells.map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn keys_act_until_the_user_quits() {
        let fake = FakeKernel::new(2);
        fake.add_client(1, 5, 1000);
        let mut pressed = vec![KeyCode::Char('q'), KeyCode::Char('g'), KeyCode::Char(' ')];
        let mut screen = screen();
        let keys = |_| Ok(pressed.pop().map(KeyEvent::from));
        let control = Control::over(&fake);
        follow(
            &arguments(None),
            &control,
            Directory::default(),
            &mut screen,
            keys,
        )
        .expect("ends");
        assert!(
            text(&screen).contains("clients of GPU 0"),
            "{}",
            text(&screen)
        );
        assert!(text(&screen).contains("paused"));
    }

    #[test]
    fn snapshots_are_counted() {
        let fake = FakeKernel::new(1);
        let control = Control::over(&fake);
        let keys = |wait| {
            std::thread::sleep(wait);
            Ok(None)
        };
        follow(
            &arguments(Some(3)),
            &control,
            Directory::default(),
            &mut screen(),
            keys,
        )
        .expect("ends");
    }

    #[test]
    fn module_that_goes_away_ends_it_with_its_error() {
        let fake = FakeKernel::new(1);
        let control = Control::over(&fake);
        let keys = |wait| {
            std::thread::sleep(wait);
            fake.fail(libc::ENODEV);
            Ok(None)
        };
        let failure = follow(
            &arguments(None),
            &control,
            Directory::default(),
            &mut screen(),
            keys,
        )
        .expect_err("ends");
        assert!(failure.to_string().contains("attached to no driver"));
    }

    #[test]
    fn keyboard_that_cannot_be_read_is_named() {
        let fake = FakeKernel::new(1);
        let control = Control::over(&fake);
        let wanted = arguments(None);
        let keys = |_| Err(io::ErrorKind::Unsupported.into());
        let failure =
            follow(&wanted, &control, Directory::default(), &mut screen(), keys).expect_err("ends");
        assert!(failure.to_string().starts_with("cannot read keys: "));
    }

    #[test]
    fn without_a_terminal_json_is_named_and_works() {
        let fake = FakeKernel::new(1);
        let control = Control::over(&fake);
        let mut out = Vec::new();
        let wanted = arguments(Some(2));
        let failure =
            run(&wanted, &control, Directory::default(), false, &mut out).expect_err("no terminal");
        assert!(failure.to_string().contains("loga top --json"));
        let wanted = cli::Top {
            json: true,
            ..wanted
        };
        run(&wanted, &control, Directory::default(), false, &mut out).expect("prints");
        let printed = String::from_utf8(out).expect("text");
        assert_eq!(printed.lines().count(), 2, "{printed}");
    }
}
