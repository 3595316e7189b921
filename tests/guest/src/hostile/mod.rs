// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Hostile programs: what an unprivileged user can try, and tests that it gains nothing.
//!
//! A program runs in a process of its own, as a user without privilege; the test that starts it
//! compares the model's own log with what LoGA says and does. Tests of this folder load the
//! model through [`model`], so that `loga-guest run --hostile BRANCH` repeats all of them on
//! each branch of the driver, and `--dispatch prio` or `edf` all but those of [`turns`] with that
//! dispatcher. A test that a short run can afford is in `QUICK` of its file too,
//! and part of `make test`.
//!
//! | file | contents |
//! |---|---|
//! | [`bad_input`] | calls in orders that make no sense, rings with wrong indices |
//! | [`bystander`] | how long calls of an uninvolved process wait next to each program |
//! | [`blocking`] | throttled programs that try to block others too |
//! | [`dispatched`] | some of all that again, with a dispatcher |
//! | [`devices`] | GPUs of another driver, and GPUs that are unbound and return |
//! | [`failures`] | programs that make LoGA fail while it takes a mapping over |
//! | [`fuzz`] | random system calls, compared with a driver without LoGA |
//! | [`loading`] | loading, attaching and detaching while users interfere |
//! | [`memory`] | what the kernel has given out, for `storms` |
//! | [`ownership`] | channels with an owner that LoGA must find out |
//! | [`readers`] | a crowd that reads what LoGA answers with locks held |
//! | [`sharing_pages`] | submission pages that several processes, debuggers and the kernel reach |
//! | [`steering`] | running outside polling phases, steering decisions and phases, deep queues, busy processors |
//! | [`storms`] | hundreds of processes that come and go, while LoGA is loaded and unloaded |
//! | [`tenants`] | limits, groups and permissions: cgroups, user namespaces, `/dev/loga` |
//! | [`turns`] | getting past the decisions on submissions |

mod bad_input;
mod blocking;
mod bystander;
mod devices;
mod dispatched;
mod failures;
mod fuzz;
mod loading;
mod memory;
mod ownership;
mod readers;
mod sharing_pages;
mod steering;
pub(crate) mod storms;
mod tenants;
mod turns;

use crate::ktap::Test;
use crate::modules;
use nix::poll::{poll, PollFd, PollFlags};
use nix::sys::signal::{killpg, Signal};
use nix::unistd::Pid;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The user that hostile programs run as.
pub(crate) const USER: u32 = 1000;

/// What a hostile program does with its arguments.
type Act = fn(&[String]) -> Result<(), String>;

/// Every hostile program, by name.
const PROGRAMS: &[&[(&str, Act)]] = &[
    ownership::PROGRAMS,
    sharing_pages::passing::PROGRAMS,
    sharing_pages::buffers::PROGRAMS,
    sharing_pages::debugging::PROGRAMS,
    sharing_pages::moving::PROGRAMS,
    sharing_pages::sleepers::PROGRAMS,
    sharing_pages::epoll::PROGRAMS,
    blocking::PROGRAMS,
    readers::PROGRAMS,
    bad_input::PROGRAMS,
    failures::PROGRAMS,
    fuzz::PROGRAMS,
    storms::PROGRAMS,
    loading::PROGRAMS,
    devices::PROGRAMS,
    tenants::PROGRAMS,
    steering::PROGRAMS,
    turns::PROGRAMS,
];

/// The tests that are part of `make test`.
pub(crate) fn quick() -> Vec<Test> {
    const QUICK: &[&[Test]] = &[
        ownership::QUICK,
        ownership::handing::TESTS,
        ownership::moving::TESTS,
        blocking::QUICK,
        readers::TESTS,
        bad_input::QUICK,
        failures::TESTS,
        fuzz::QUICK,
        storms::QUICK,
        devices::TESTS,
        dispatched::QUICK,
        tenants::QUICK,
        steering::QUICK,
        turns::QUICK,
    ];
    let mut tests = QUICK.concat();
    tests.extend(loading::quick());
    tests.extend(sharing_pages::quick());
    tests
}

/// All tests of this folder that run with the dispatcher that is set, if any: those of `turns` choose
/// one themselves, and run without.
pub(crate) fn all() -> Vec<Test> {
    const ALL: &[&[Test]] = &[
        ownership::TESTS,
        ownership::handing::TESTS,
        ownership::moving::TESTS,
        blocking::TESTS,
        readers::TESTS,
        bystander::TESTS,
        bad_input::TESTS,
        failures::TESTS,
        fuzz::QUICK,
        fuzz::LONG,
        storms::QUICK,
        storms::LONG,
        loading::TESTS,
        devices::TESTS,
        tenants::TESTS,
        steering::ALL,
    ];
    let mut tests = ALL.concat();
    tests.extend(sharing_pages::all());
    if dispatcher().is_none() {
        tests.extend(turns::TESTS);
    }
    tests
}

/// The driver branch that the model stands in for.
static BRANCH: AtomicU32 = AtomicU32::new(470);

/// Sets the branch for the next tests.
pub(crate) fn set_branch(branch: u32) {
    BRANCH.store(branch, Ordering::Relaxed);
}

/// The branch of the tests that run.
pub(crate) fn branch() -> u32 {
    BRANCH.load(Ordering::Relaxed)
}

/// A dispatcher that LoGA may be loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Dispatcher {
    /// By priority.
    Prio,
    /// By deadline.
    Edf,
}

impl Dispatcher {
    /// The value of the parameter.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prio => "prio",
            Self::Edf => "edf",
        }
    }
}

/// The dispatcher of the tests that run, if any.
static DISPATCHER: Mutex<Option<Dispatcher>> = Mutex::new(None);

/// From now on LoGA is loaded with this dispatcher, if any, by tests that choose none themselves.
pub(crate) fn set_dispatcher(dispatcher: Option<Dispatcher>) {
    *DISPATCHER.lock().unwrap_or_else(PoisonError::into_inner) = dispatcher;
    let parameter = dispatcher.map(|one| format!("dispatch={}", one.name()));
    modules::set_defaults(&parameter.unwrap_or_default());
}

/// The dispatcher of the tests that run.
pub(crate) fn dispatcher() -> Option<Dispatcher> {
    *DISPATCHER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Parameters of the model: the branch, and these.
pub(crate) fn model(parameters: &str) -> String {
    format!("branch={} {parameters}", branch())
}

/// Runs the program with this name; returns when it has ended.
pub(crate) fn program(name: &str, arguments: &[String]) -> bool {
    let mut programs = PROGRAMS.iter().copied().flatten();
    let Some((_, act)) = programs.find(|(other, _)| *other == name) else {
        eprintln!("loga-guest: {name}: no such program");
        return false;
    };
    match act(arguments) {
        Ok(()) => true,
        Err(reason) => {
            eprintln!("loga-guest: {name}: {reason}");
            false
        }
    }
}

/// A hostile program in a process of its own; killed when dropped, with its children.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
}

impl Program {
    /// Starts a program of [`PROGRAMS`] as [`USER`], with words as its arguments.
    pub(crate) fn start(words: &str) -> Result<Self, String> {
        Program::start_as(USER, words)
    }

    /// As [`Program::start`], as this user.
    pub(crate) fn start_as(uid: u32, words: &str) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(&own);
        command.args(["as", &uid.to_string(), "--"]).arg(&own);
        command.arg("hostile").args(words.split_whitespace());
        let child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("hostile {words}: {error}"))?;
        Ok(Program { child })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints, within this time.
    pub(crate) fn line(&mut self, limit: Duration) -> Result<String, String> {
        let stdout = self.child.stdout.as_mut().ok_or("no output")?;
        let (since, mut line) = (Instant::now(), Vec::new());
        while since.elapsed() < limit {
            let mut files = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut files, 100u16).map_err(|errno| errno.to_string())?;
            let mut byte = [0];
            if ready == 0 {
                continue;
            }
            match stdout.read(&mut byte).map_err(|error| error.to_string())? {
                0 => return Err("the hostile program has ended".to_string()),
                _ if byte[0] == b'\n' => return Ok(String::from_utf8_lossy(&line).into_owned()),
                _ => line.push(byte[0]),
            }
        }
        Err(format!("nothing printed within {limit:?}"))
    }

    /// Whether it or a process that it made still has its output open.
    pub(crate) fn runs(&mut self) -> Result<bool, String> {
        let stdout = self.child.stdout.as_mut().ok_or("no output")?;
        let mut files = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
        poll(&mut files, 0u16).map_err(|errno| errno.to_string())?;
        Ok(!files[0]
            .revents()
            .is_some_and(|seen| seen.contains(PollFlags::POLLHUP)))
    }

    /// Sends it a line.
    pub(crate) fn send(&mut self, line: &str) -> Result<(), String> {
        use std::io::Write;
        let stdin = self.child.stdin.as_mut().ok_or("it has no input")?;
        writeln!(stdin, "{line}").map_err(|error| error.to_string())
    }

    /// Waits for its end; an error if it failed.
    pub(crate) fn finish(mut self) -> Result<String, String> {
        let mut text = String::new();
        if let Some(stdout) = &mut self.child.stdout {
            stdout
                .read_to_string(&mut text)
                .map_err(|error| error.to_string())?;
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() {
            Ok(text)
        } else {
            Err(format!("the hostile program ended with {status}: {text}"))
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // A process that has ended needs no signal.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}
