// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of `loga top` on a pseudo-terminal: what a person sees, and the keys.

use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::stage::{Stage, LAZY};
use nix::poll::{poll, PollFd, PollFlags};
use nix::pty::{openpty, Winsize};
use nix::sys::termios::{tcgetattr, LocalFlags};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

crate::ktap::tests![top_on_a_terminal_shows_clients_obeys_keys_and_restores_it];

const ROWS: u16 = 24;
const COLUMNS: u16 = 120;
/// TIMEOUT: until the screen shows something, or the program ends.
const SOON: Duration = Duration::from_secs(15);

/// `loga top` on a terminal of its own.
struct Top {
    child: Child,
    keys: File,
    terminal: OwnedFd,
    screen: vt100::Parser,
}

impl Top {
    fn start() -> Result<Self, String> {
        let size = Winsize {
            ws_row: ROWS,
            ws_col: COLUMNS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).map_err(|errno| errno.to_string())?;
        let end = || pty.slave.try_clone().map_err(|error| error.to_string());
        // A session of its own, with this terminal.
        let child = Command::new("setsid")
            .args(["-c", "loga", "top"])
            .env("TERM", "xterm")
            .stdin(end()?)
            .stdout(end()?)
            .stderr(end()?)
            .spawn()
            .map_err(|error| format!("setsid: {error}"))?;
        Ok(Top {
            child,
            keys: File::from(pty.master),
            terminal: pty.slave,
            screen: vt100::Parser::new(ROWS, COLUMNS, 0),
        })
    }

    fn press(&mut self, key: &str) -> Result<(), String> {
        self.keys
            .write_all(key.as_bytes())
            .map_err(|error| error.to_string())
    }

    /// Reads the output drawn until now.
    fn contents(&mut self) -> Result<String, String> {
        let mut files = [PollFd::new(self.keys.as_fd(), PollFlags::POLLIN)];
        let ready = poll(&mut files, 100u16).map_err(|errno| errno.to_string())?;
        if ready != 0 {
            let mut bytes = [0; 4096];
            let count = self
                .keys
                .read(&mut bytes)
                .map_err(|error| error.to_string())?;
            self.screen.process(&bytes[..count]);
        }
        Ok(self.screen.screen().contents())
    }

    /// Waits until the screen is so.
    fn wait_until(&mut self, what: &str, so: impl Fn(&str) -> bool) -> Result<(), String> {
        let since = Instant::now();
        loop {
            let contents = self.contents()?;
            if so(&contents) {
                return Ok(());
            }
            ensure!(
                since.elapsed() < SOON,
                "{what} did not appear on:\n{contents}"
            );
        }
    }

    /// Whether lines are edited and keys are echoed, as before the program.
    fn is_as_before(&self) -> Result<bool, String> {
        let modes = tcgetattr(&self.terminal).map_err(|errno| errno.to_string())?;
        let wanted = LocalFlags::ICANON | LocalFlags::ECHO;
        Ok(modes.local_flags.contains(wanted))
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // One that has ended needs none.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn top_on_a_terminal_shows_clients_obeys_keys_and_restores_it() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let load = Load::start("--kernel-us 500 --wait block --channels 1")?;
    let mut top = Top::start()?;
    let pid = load.pid().to_string();
    top.wait_until("the client", |screen| {
        let mut lines = screen.lines();
        lines.any(|line| line.contains(&pid) && line.contains("throttle"))
    })?;
    ensure!(!top.is_as_before()?, "keys are not read one by one");
    top.press(" ")?;
    top.wait_until("the pause", |screen| screen.contains("paused"))?;
    top.press("v")?;
    top.wait_until("groups instead of clients", |screen| {
        screen.starts_with("loga top: groups")
    })?;
    // Every client, the terminal's own session and the screen before it come back.
    top.press("q")?;
    let since = Instant::now();
    let status = loop {
        top.contents()?;
        let ended = top.child.try_wait().map_err(|error| error.to_string())?;
        if let Some(status) = ended {
            break status;
        }
        ensure!(since.elapsed() < SOON, "loga top did not end");
    };
    ensure!(status.success(), "loga top ended with {status}");
    ensure!(top.is_as_before()?, "the terminal is not as it was before");
    drop((top, load));
    stage.teardown()
}
