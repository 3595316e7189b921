// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The whole terminal, taken over until it is given back: at the end, before a signal ends or
//! stops the program, and before the message of a panic.
//!
//! Signals are noted by a handler and answered between two pictures, so that nothing is drawn once
//! the terminal is given back. Keys are read here too: a terminal that has gone away is an error.

use super::keys::Keys;
use super::or_usual;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::termios::{cfmakeraw, tcgetattr, tcsetattr, SetArg, Termios};
use nix::unistd::{getpgid, getpgrp, getppid, getsid, Pid};
use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::crossterm::cursor::{Hide, MoveTo, Show};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::{Attribute, SetAttribute};
use ratatui::crossterm::terminal::{Clear, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Position, Size};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::io::{stdin, stdout, Stdout};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Signals that are answered.
const SIGNALS: [i32; 7] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH];

/// TIMEOUT: until the rest of a key's bytes has come, also over a slow line.
const REST: Duration = Duration::from_millis(50);

/// TIMEOUT: until the signal of a terminal that has gone away, which is on its way; none comes to a
/// program that is not in the foreground.
const HANG_UP: Duration = Duration::from_millis(500);

/// Most programs above this one that belong to the same job, such as sudo.
const FOREBEARS: usize = 16;

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The time was over, or the terminal has another size.
    Nothing,
    /// A key.
    Key(KeyEvent),
    /// The terminal shows what others have drawn: all of the picture is missing.
    Continued,
}

/// How the terminal was before, while it is taken over.
#[derive(Clone, Debug, Default)]
struct Before(Arc<Mutex<Option<Termios>>>);

impl Before {
    fn take_over(&self) -> io::Result<()> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(stdin(), SetArg::TCSANOW, &raw)?;
        execute!(stdout(), EnterAlternateScreen, Hide)
    }

    /// Does nothing if that has been done.
    fn give_back(&self) {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(before) = before else {
            return;
        };
        let (_, rows) = super::size();
        // Of a terminal that has gone away there is nothing to give back. One without a second screen
        // keeps the picture: what follows begins below it.
        let _ = execute!(
            stdout(),
            SetAttribute(Attribute::Reset),
            MoveTo(0, rows.saturating_sub(1)),
            Clear(ratatui::crossterm::terminal::ClearType::CurrentLine),
            Show,
            LeaveAlternateScreen
        );
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, &before);
    }
}

/// The terminal; whoever holds this draws on it.
#[derive(Debug)]
pub struct Screen {
    before: Before,
    signals: SignalDelivery<UnixStream, SignalOnly>,
    keys: Keys,
}

impl Screen {
    /// Takes over the terminal.
    ///
    /// # Errors
    ///
    /// The standard input is no terminal, or it cannot be written to.
    pub fn take_over() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let screen = Screen {
            before: Before::default(),
            signals: SignalDelivery::with_pipe(read, write, SignalOnly, SIGNALS)?,
            keys: Keys::default(),
        };
        let before = screen.before.clone();
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before.give_back();
            hook(panic);
        }));
        screen.before.take_over()?;
        Ok(screen)
    }

    /// Waits for a key, at most for `timeout`. Returns earlier when the terminal changes, and not at
    /// all after a signal that ends the program.
    ///
    /// # Errors
    ///
    /// The terminal has gone away.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Happened> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(happened) = self.answer()? {
                return Ok(happened);
            }
            if let Some(key) = self.keys.next_key() {
                return self.pressed(key);
            }
            let begun = self.keys.is_in_a_sequence();
            let left = until.saturating_duration_since(Instant::now());
            let ready = self.poll(if begun { REST } else { left })?;
            if ready.signals {
                continue;
            }
            if ready.keys {
                self.read()?;
            } else if let Some(key) = self.keys.end_of_sequence() {
                return self.pressed(key);
            } else if !begun {
                return Ok(Happened::Nothing);
            }
        }
    }

    /// Ends the program if the terminal has gone away, by the signal for that: the kernel lets reads
    /// and writes fail a moment before it sends it.
    pub fn end_if_gone(&mut self) {
        if tcgetattr(stdin()).is_ok() {
            return;
        }
        let read = self.signals.get_read().as_fd();
        let mut signals = [PollFd::new(read, PollFlags::POLLIN)];
        let wait = PollTimeout::try_from(HANG_UP).unwrap_or(PollTimeout::MAX);
        let _ = poll(&mut signals, wait);
        // Without a signal, the failure that led here is told.
        let _ = self.answer();
    }

    /// Answers the signals that have come.
    fn answer(&mut self) -> io::Result<Option<Happened>> {
        let mut happened = None;
        for signal in self.signals.pending() {
            match signal {
                SIGWINCH => happened = happened.or(Some(Happened::Nothing)),
                SIGTSTP => {
                    stop(&self.before)?;
                    happened = Some(Happened::Continued);
                }
                // Whoever stopped the program may have changed the terminal.
                SIGCONT => {
                    self.before.give_back();
                    self.before.take_over()?;
                    happened = Some(Happened::Continued);
                }
                signal => {
                    self.before.give_back();
                    emulate_default_handler(signal)?;
                }
            }
        }
        Ok(happened)
    }

    fn pressed(&mut self, key: KeyEvent) -> io::Result<Happened> {
        let suspend = KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL);
        if key != suspend {
            return Ok(Happened::Key(key));
        }
        stop(&self.before)?;
        Ok(Happened::Continued)
    }

    fn poll(&self, timeout: Duration) -> io::Result<Ready> {
        let input = stdin();
        let mut files = [
            PollFd::new(input.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.get_read().as_fd(), PollFlags::POLLIN),
        ];
        // Rounded up: no wait of less than a millisecond is repeated over and over.
        let timeout = timeout.saturating_add(Duration::from_micros(999));
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut files, timeout) {
            Ok(_) => Ok(Ready {
                keys: files[0].any().unwrap_or_default(),
                signals: files[1].any().unwrap_or_default(),
            }),
            Err(Errno::EINTR) => Ok(Ready {
                keys: false,
                signals: true,
            }),
            Err(errno) => Err(errno.into()),
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 256];
        let count = match nix::unistd::read(stdin(), &mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        self.keys.push(&bytes[..count]);
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.before.give_back();
    }
}

/// What there is to read.
struct Ready {
    keys: bool,
    signals: bool,
}

/// Gives the terminal back while the program is stopped, and takes it over again.
fn stop(before: &Before) -> io::Result<()> {
    if !is_controlled() {
        return Ok(());
    }
    before.give_back();
    emulate_default_handler(SIGTSTP)?;
    before.take_over()
}

/// Whether a shell of this session would continue the program once it is stopped: by their terminal,
/// the kernel stops no processes that nobody would continue.
fn is_controlled() -> bool {
    let (group, session) = (Ok(getpgrp()), getsid(None));
    let mut above = getppid();
    for _ in 0..FOREBEARS {
        if getpgid(Some(above)) != group {
            return session.is_ok() && getsid(Some(above)) == session;
        }
        let process = procfs::process::Process::new(above.as_raw());
        let Ok(stat) = process.and_then(|process| process.stat()) else {
            return false;
        };
        above = Pid::from_raw(stat.ppid);
    }
    false
}

/// A terminal as the crate that draws sees it: of the usual size if it does not know its own. Whoever
/// takes it over hides the cursor.
#[derive(Debug)]
pub struct Output(CrosstermBackend<Stdout>);

impl Default for Output {
    fn default() -> Self {
        Output(CrosstermBackend::new(stdout()))
    }
}

impl Backend for Output {
    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        self.0.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.0.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        self.0
            .size()
            .map(|size| or_usual((size.width, size.height)).into())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.0.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}
