// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A shell on a pseudo-terminal, and what a person sees there.

use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use nix::poll::{poll, PollFd, PollFlags};
use nix::pty::{openpty, Winsize};
use nix::sys::termios::{tcgetattr, Termios};
use nix::unistd::{tcgetpgrp, Pid};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// TIMEOUT: until the screen shows something, or a program ends; ends a test that hangs.
const SOON: Duration = Duration::from_secs(300);

/// One terminal is opened at a time.
static STARTING: Mutex<()> = Mutex::new(());

/// A terminal with a program on it.
pub(crate) struct Pty {
    child: Child,
    keys: File,
    /// Kept open, so that what the terminal is set to can be asked after the program.
    terminal: OwnedFd,
    screen: vt100::Parser,
    before: Termios,
    /// All that was written to it.
    pub(crate) written: Vec<u8>,
}

impl Pty {
    /// A command in a session of its own, whose terminal says that it has so many columns and rows.
    pub(crate) fn start(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // What is forked while it is open without this mark would keep it open.
        let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let pty = openpty(Some(&size), None).expect("a terminal");
        for end in [&pty.master, &pty.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("marked");
        }
        let before = tcgetattr(&pty.slave).expect("modes");
        let end = || pty.slave.try_clone().expect("a file");
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("runs");
        // Its copies of the terminal would keep that open.
        drop(command);
        Pty {
            child,
            keys: File::from(pty.master),
            terminal: pty.slave,
            screen: vt100::Parser::new(rows.max(24), columns.max(80), 0),
            before,
            written: Vec::new(),
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("pressed");
    }

    /// Reads what was drawn until now.
    fn read(&mut self) {
        let mut files = [PollFd::new(self.keys.as_fd(), PollFlags::POLLIN)];
        if poll(&mut files, 100u16).expect("polls") > 0 {
            let mut bytes = [0; 65_536];
            let count = self.keys.read(&mut bytes).expect("reads");
            self.screen.process(&bytes[..count]);
            self.written.extend_from_slice(&bytes[..count]);
        }
    }

    /// Waits until the screen shows this.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let since = Instant::now();
        while !self.contents().contains(text) {
            let contents = self.contents();
            assert!(since.elapsed() < SOON, "no {text:?} on:\n{contents}");
            self.read();
        }
    }

    pub(crate) fn contents(&self) -> String {
        self.screen.screen().contents()
    }

    /// The foreground job.
    pub(crate) fn job(&self) -> Pid {
        tcgetpgrp(&self.keys).expect("a job")
    }

    /// Whether a program has taken it over: keys are read one by one, on a screen of its own.
    pub(crate) fn is_taken_over(&self) -> bool {
        let screen = self.screen.screen();
        screen.alternate_screen() && screen.hide_cursor() && !self.has_its_modes()
    }

    fn has_its_modes(&self) -> bool {
        let modes = |modes: &Termios| {
            let (input, output) = (modes.input_flags, modes.output_flags);
            (input, output, modes.control_flags, modes.local_flags)
        };
        let now = tcgetattr(&self.terminal).expect("modes");
        modes(&now) == modes(&self.before)
    }

    /// Asserts that the terminal is as before the program.
    pub(crate) fn assert_as_before(&self, after: &str) {
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "the other screen, {after}");
        assert!(!screen.hide_cursor(), "no cursor, {after}");
        assert!(self.has_its_modes(), "other modes, {after}");
    }

    /// Waits for the end of the program.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waits") {
                self.read();
                return status;
            }
            assert!(since.elapsed() < SOON, "runs on:\n{}", self.contents());
            self.read();
        }
    }

    /// The terminal goes away, as when its window is closed; how the program ended.
    pub(crate) fn close(self) -> ExitStatus {
        let Pty {
            mut child,
            keys,
            terminal,
            ..
        } = self;
        drop((keys, terminal));
        let since = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("waits") {
                return status;
            }
            if since.elapsed() > SOON {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
