// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A process that a test drives: the test's side.

use crate::ktap::ensure;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// TIMEOUT: longest wait for an ordinary answer.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A process that runs [`caller_process`](crate::caller_process); killed when dropped.
#[derive(Debug)]
pub(crate) struct Caller {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Caller {
    /// Starts a caller.
    pub(crate) fn new() -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(program)
            .arg("caller")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("caller: {error}"))?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("caller: no pipes".to_string());
        };
        Ok(Caller {
            child,
            orders,
            answers: BufReader::new(answers),
        })
    }

    /// Starts a caller and opens a client with channels.
    pub(crate) fn with_channels(count: u32) -> Result<Self, String> {
        let mut caller = Caller::new()?;
        caller.ask(&format!("open {count}"))?;
        Ok(caller)
    }

    /// Checks that it can use the GPU; other tests check how fast.
    pub(crate) fn check_work(&mut self) -> Result<(), String> {
        let run = self.ask("run 100 100")?;
        ensure!(run[0] > 0, "no kernel of 100 us in 100 ms");
        Ok(())
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order without waiting for the answer.
    pub(crate) fn send(&mut self, order: &str) -> Result<(), String> {
        writeln!(self.orders, "{order}").map_err(|error| format!("caller, {order}: {error}"))
    }

    /// Gives an order and waits for the answer.
    pub(crate) fn ask(&mut self, order: &str) -> Result<Vec<u64>, String> {
        self.send(order)?;
        self.answer(SOON)
            .map_err(|error| format!("caller, {order}: {error}"))
    }

    /// The next answer.
    pub(crate) fn answer(&mut self, limit: Duration) -> Result<Vec<u64>, String> {
        if !self.has_answered(limit)? {
            return Err(format!("no answer within {limit:?}"));
        }
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        let mut words = line.split_whitespace();
        match words.next() {
            Some("ok") => words
                .map(|word| word.parse().map_err(|_| format!("answer {line:?}")))
                .collect(),
            Some("error") => Err(line.trim_start_matches("error").trim().to_string()),
            _ => Err("the caller is gone".to_string()),
        }
    }

    /// Waits at most `limit` for an answer; whether there is one.
    pub(crate) fn has_answered(&self, limit: Duration) -> Result<bool, String> {
        if !self.answers.buffer().is_empty() {
            return Ok(true);
        }
        let mut files = [PollFd::new(
            self.answers.get_ref().as_fd(),
            PollFlags::POLLIN,
        )];
        let limit = PollTimeout::try_from(limit).map_err(|error| error.to_string())?;
        let ready = poll(&mut files, limit).map_err(|errno| errno.to_string())?;
        Ok(ready > 0)
    }

    /// It ends, and leaves a child that keeps its channel busy with kernels of a millisecond for so
    /// many milliseconds; the child's number.
    pub(crate) fn leave_a_child(&mut self, ms: u32) -> Result<u32, String> {
        self.send(&format!("fork 1000 {ms}"))?;
        let child = self.wait_for_child()?;
        self.kill()?;
        Ok(child)
    }

    /// Waits until it has a child; the child's number.
    fn wait_for_child(&self) -> Result<u32, String> {
        let since = Instant::now();
        while since.elapsed() < SOON {
            let processes = fs::read_dir("/proc").map_err(|error| error.to_string())?;
            let names = processes.flatten().map(|entry| entry.file_name());
            let mut pids = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
            if let Some(child) = pids.find(|pid| parent_of(*pid) == Some(self.pid())) {
                return Ok(child);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(format!(
            "process {} has no child after {SOON:?}",
            self.pid()
        ))
    }

    /// Kills it and returns how long it took to die.
    pub(crate) fn kill(&mut self) -> Result<Duration, String> {
        let since = Instant::now();
        self.child.kill().map_err(|error| error.to_string())?;
        self.wait()?;
        Ok(since.elapsed())
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Result<(), String> {
        self.child
            .wait()
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// The process that a process descends from, if both are there.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// Checks that a client with channels can open, run and exit.
pub(crate) fn client_works(channels: u32) -> Result<(), String> {
    Caller::with_channels(channels)?.check_work()
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
