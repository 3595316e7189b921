// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga top`: the screen, refreshed at intervals.

use super::{stat, Failure};
use crate::cli;
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::processes::Processes;
use crate::terminal::screen::{Happened, Output, Screen};
use crate::terminal::Terminal;
use crate::top::app::App;
use crate::top::view;
use ratatui::backend::Backend;
use std::io;
use std::io::Write;
use std::time::{Duration, Instant};

/// What there is without a screen.
const INSTEAD: &str = "`loga stat --watch 1` or `loga top --json`";

/// Takes over the terminal until the user has seen enough; or prints JSON.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::Top,
    control: &Control<impl Calls>,
    directory: Directory,
    terminal: Option<Terminal>,
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
    let Some(terminal) = terminal else {
        let line = format!("no terminal to draw on: use {INSTEAD}");
        return Err(Failure::Text(line));
    };
    if !terminal.addressable {
        let kind = std::env::var("TERM").unwrap_or_default();
        let line = format!("cannot draw on this terminal (TERM={kind}): use {INSTEAD}");
        return Err(Failure::Text(line));
    }
    // Whatever is wrong is said before the screen is taken over.
    control.chosen(arguments.gpu)?;
    let app = App::new(directory, arguments.interval).on(terminal.capabilities);
    let mut screen = Screen::take_over()?;
    let mut picture = ratatui::Terminal::new(Output::default())?;
    let wait = |timeout| screen.wait(timeout);
    let followed = follow(arguments, control, app, &mut picture, wait);
    if followed.is_err() {
        screen.end_if_gone();
    }
    followed
}

fn follow(
    arguments: &cli::Top,
    control: &Control<impl Calls>,
    mut app: App,
    picture: &mut ratatui::Terminal<impl Backend>,
    mut wait_for_keys: impl FnMut(Duration) -> io::Result<Happened>,
) -> Result<(), Failure> {
    // A terminal without a second screen shows what was there before, and only changes are drawn.
    picture.clear()?;
    let mut snapshots = arguments.times.unwrap_or(u64::MAX);
    let mut taken: Option<Instant> = None;
    loop {
        let left = |since: Instant| app.interval().saturating_sub(since.elapsed());
        let wait = taken.map_or(Duration::ZERO, left);
        if !wait.is_zero() || app.is_paused() {
            picture.draw(|frame| view::draw(&mut app, frame))?;
            let wait = if app.is_paused() {
                app.interval()
            } else {
                wait
            };
            let said = |error| Failure::Text(format!("cannot read keys: {error}"));
            match wait_for_keys(wait).map_err(said)? {
                Happened::Nothing => {}
                Happened::Key(key) => app.key(key),
                Happened::Continued => picture.clear()?,
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
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    fn arguments(times: Option<u64>) -> cli::Top {
        cli::Top {
            gpu: None,
            interval: Duration::from_millis(2),
            json: false,
            times,
        }
    }

    fn screen() -> ratatui::Terminal<TestBackend> {
        ratatui::Terminal::new(TestBackend::new(100, 10)).expect("a terminal")
    }

    fn app(arguments: &cli::Top) -> App {
        App::new(Directory::default(), arguments.interval)
    }

    fn text(screen: &ratatui::Terminal<TestBackend>) -> String {
        let cells = screen.backend().buffer().content().iter();
        cells.map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn keys_act_until_the_user_quits() {
        let fake = FakeKernel::new(2);
        fake.add_client(1, 5, 1000);
        let mut pressed = vec![KeyCode::Char('q'), KeyCode::Char('g'), KeyCode::Char(' ')];
        let mut screen = screen();
        let keys = |_| {
            let key = pressed.pop().map(KeyEvent::from);
            Ok(key.map_or(Happened::Nothing, Happened::Key))
        };
        let control = Control::over(&fake);
        follow(
            &arguments(None),
            &control,
            app(&arguments(None)),
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
            Ok(Happened::Nothing)
        };
        follow(
            &arguments(Some(3)),
            &control,
            app(&arguments(Some(3))),
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
            Ok(Happened::Nothing)
        };
        let failure = follow(
            &arguments(None),
            &control,
            app(&arguments(None)),
            &mut screen(),
            keys,
        )
        .expect_err("ends");
        assert!(failure.to_string().contains("attached to no driver"));
    }

    #[test]
    fn picture_is_whole_again_after_a_stop() {
        let fake = FakeKernel::new(1);
        fake.add_client(0, 5, 1000);
        let mut screen = screen();
        let mut happened = vec![
            Happened::Key(KeyCode::Char('q').into()),
            Happened::Continued,
        ];
        follow(
            &arguments(None),
            &Control::over(&fake),
            app(&arguments(None)),
            &mut screen,
            |_| Ok(happened.pop().expect("not more")),
        )
        .expect("ends");
        assert!(text(&screen).starts_with("loga top"), "{}", text(&screen));
    }

    #[test]
    fn terminal_that_obeys_nothing_is_refused_with_what_there_is_instead() {
        let fake = FakeKernel::new(1);
        let dumb = Terminal {
            addressable: false,
            ..crate::terminal::tests::WHOLE
        };
        let control = Control::over(&fake);
        let mut out = Vec::new();
        let wanted = arguments(None);
        let directory = Directory::default();
        let failure = run(&wanted, &control, directory, Some(dumb), &mut out).expect_err("refused");
        let said = failure.to_string();
        assert!(said.contains("TERM="), "{said}");
        assert!(said.contains("loga stat --watch 1"), "{said}");
    }

    #[test]
    fn keyboard_that_cannot_be_read_is_named() {
        let fake = FakeKernel::new(1);
        let control = Control::over(&fake);
        let wanted = arguments(None);
        let keys = |_| Err(io::ErrorKind::Unsupported.into());
        let failure =
            follow(&wanted, &control, app(&wanted), &mut screen(), keys).expect_err("ends");
        assert!(failure.to_string().starts_with("cannot read keys: "));
    }

    #[test]
    fn without_a_terminal_json_is_named_and_works() {
        let fake = FakeKernel::new(1);
        let control = Control::over(&fake);
        let mut out = Vec::new();
        let wanted = arguments(Some(2));
        let failure =
            run(&wanted, &control, Directory::default(), None, &mut out).expect_err("no terminal");
        assert!(failure.to_string().contains("loga top --json"));
        let wanted = cli::Top {
            json: true,
            ..wanted
        };
        run(&wanted, &control, Directory::default(), None, &mut out).expect("prints");
        let printed = String::from_utf8(out).expect("text");
        assert_eq!(printed.lines().count(), 2, "{printed}");
    }
}
