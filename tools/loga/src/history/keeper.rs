// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The history as the agent holds it: it follows clients, adds what has ended, writes the
//! file, and answers.

use super::ask::{exe, Answer, Question, Running, VERSION};
use super::file;
use super::runs::{Ended, Program, RunTracker, EVENTS};
use super::table::History;
use crate::control::{Calls, Control};
use crate::error::Error;
use crate::export::reading::Reading;
use crate::names::Name;
use loga::uapi;
use loga::uapi::Event;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Events read at once.
const BATCH: usize = 64;
/// TIMEOUT: batches read in a row; the queue of the kernel has four of them.
const BATCHES: usize = 16;
/// Most processes that have said what they become, of all users and of one.
const STARTED_MAX: usize = 4096;
const STARTED_OF_USER_MAX: usize = 256;
/// Most running clients in an answer.
const RUNNING_MAX: usize = 1024;
/// The file is not written more often.
const SAVE_PERIOD: Duration = Duration::from_secs(10);

/// Process and user at the other end of a connection, by the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
}

/// What a process said that it becomes.
#[derive(Clone, Debug)]
struct Started {
    uid: u32,
    program: Program,
}

/// What all threads share.
#[derive(Debug, Default)]
struct State {
    history: History,
    watch: RunTracker,
    started: BTreeMap<i32, Started>,
    changed: bool,
}

impl State {
    /// What a process of a user runs: what it said itself, else its executable as far as the agent
    /// may see it.
    fn program(
        started: &BTreeMap<i32, Started>,
        proc: &Path,
        pid: i32,
        uid: u32,
    ) -> Option<Program> {
        // Root starts programs for others.
        let said = started
            .get(&pid)
            .filter(|one| one.uid == uid || one.uid == 0);
        if let Some(started) = said {
            return Some(started.program.clone());
        }
        let folder = proc.join(pid.to_string());
        // Else the number is another process's by now.
        let own = fs::metadata(&folder).is_ok_and(|data| data.uid() == uid);
        let exe = if own { exe(&folder.join("exe")) } else { None };
        Some((exe?, String::new()))
    }

    fn fold(&mut self, ended: impl IntoIterator<Item = Ended>, now_s: u64) {
        for (key, run) in ended {
            self.history.add(key, &run, now_s);
            self.changed = true;
        }
    }

    fn answer(&mut self, peer: Peer, question: &Question) -> Answer {
        let Question { exe, name, .. } = question;
        let record = self.history.record(peer.uid, *exe, name).cloned();
        let time = |(gpu, client, (exe, name)): (u32, u64, &Program)| {
            let record = self.history.record(peer.uid, Some(*exe), name)?;
            let times = record.models.iter().filter_map(|one| one.time.known());
            let time_ns = times.max()?;
            Some(Running {
                gpu,
                client,
                time_ns,
            })
        };
        let running = self.watch.of(peer.uid).filter_map(time);
        let answer = Answer {
            version: VERSION,
            error: None,
            record,
            typical_ns: self.history.typical_ns(peer.uid),
            running: running.take(RUNNING_MAX).collect(),
        };
        if let Some(exe) = exe.filter(|_| question.starts) {
            self.start(peer, (exe, name.clone()));
        }
        answer
    }

    fn start(&mut self, Peer { pid, uid }: Peer, program: Program) {
        let own = self.started.values().filter(|one| one.uid == uid).count();
        let room = own < STARTED_OF_USER_MAX && self.started.len() < STARTED_MAX;
        if pid > 0 && (room || self.started.contains_key(&pid)) {
            self.started.insert(pid, Started { uid, program });
        }
    }
}

/// The answers of a keeper, for other threads.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Mutex<State>>);

impl Answers {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panics while it holds the lock leaves a whole state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a line.
    pub fn to(&self, peer: Peer, line: &[u8]) -> Answer {
        let refused = |error: String| Answer {
            version: VERSION,
            error: Some(error),
            ..Answer::default()
        };
        let question: Question = match serde_json::from_slice(line) {
            Ok(question) => question,
            Err(error) => return refused(format!("not a question: {error}")),
        };
        if question.version != VERSION {
            let version = question.version;
            return refused(format!("a question of version {version}: want {VERSION}"));
        }
        if !question.name.is_empty() {
            if let Err(error) = super::checked_name(&question.name) {
                return refused(format!("name: {error}"));
            }
        }
        self.state().answer(peer, &question)
    }
}

/// Follows clients of the kernel module and keeps their runs.
#[derive(Debug)]
pub struct Keeper<C> {
    folder: PathBuf,
    proc: PathBuf,
    shared: Answers,
    listening: Option<Control<C>>,
    /// Whether the kernel module answered last.
    answers: bool,
    saved: Instant,
    /// What was said last about the file.
    said: Option<String>,
}

impl<C: Calls> Keeper<C> {
    /// With what a folder has of earlier times; also what is to be said about it.
    pub fn new(folder: &Path, proc: &Path) -> (Self, Option<String>) {
        let (history, said) = file::load(folder);
        let shared = Answers::default();
        shared.state().history = history;
        let keeper = Self {
            folder: folder.to_path_buf(),
            proc: proc.to_path_buf(),
            shared,
            listening: None,
            answers: false,
            saved: Instant::now(),
            said: None,
        };
        (keeper, said)
    }

    /// For the threads that answer.
    pub fn answers(&self) -> Answers {
        self.shared.clone()
    }

    /// Subscribes to events if the kernel module answered last: it keeps the device open as long as
    /// LoGA is attached.
    pub fn listen(&mut self, open: &impl Fn() -> Result<Control<C>, Error>) {
        if self.listening.is_some() || !self.answers {
            return;
        }
        let control = open().and_then(|control| {
            control.subscribe(uapi::ALL_GPUS, EVENTS)?;
            Ok(control)
        });
        self.listening = control.ok();
        self.shared.state().watch.subscribed();
    }

    /// Takes the events that there are.
    pub fn hear(&mut self) {
        let Some(control) = &self.listening else {
            return;
        };
        let mut events = [Event::default(); BATCH];
        for _ in 0..BATCHES {
            match control.events(&mut events, Duration::ZERO) {
                Ok(count) => {
                    self.take(events.get(..count).unwrap_or_default());
                    if count < BATCH {
                        return;
                    }
                }
                Err(_) => {
                    self.listening = None;
                    return;
                }
            }
        }
    }

    fn take(&self, events: &[Event]) {
        let now_s = now_s();
        let mut state = self.shared.state();
        let State { watch, started, .. } = &mut *state;
        let mut program = |pid, uid| State::program(started, &self.proc, pid, uid);
        let ended = events
            .iter()
            .filter_map(|one| watch.event(one, &mut program));
        let ended: Vec<Ended> = ended.collect();
        state.fold(ended, now_s);
    }

    /// Takes what was read of all GPUs; without it, the kernel module did not answer.
    pub fn see(&mut self, readings: Option<&[Reading]>) {
        self.answers = readings.is_some();
        let Some(readings) = readings else {
            // An open file would keep the module loaded.
            self.listening = None;
            self.shared.state().watch.forget();
            return;
        };
        let mut state = self.shared.state();
        let State { watch, started, .. } = &mut *state;
        started.retain(|pid, _| is_there(*pid));
        let mut program = |pid, uid| State::program(started, &self.proc, pid, uid);
        let mut ended: Vec<Ended> = Vec::new();
        for reading in readings {
            ended.extend(watch.snapshot(&reading.snapshot, &mut program));
        }
        watch.caught_up();
        state.fold(ended, now_s());
    }

    /// As [`save`](Self::save), but not more often than each ten seconds.
    pub fn save_now_and_then(&mut self) -> Option<String> {
        if self.saved.elapsed() < SAVE_PERIOD {
            return None;
        }
        self.save()
    }

    /// Writes the file if something has changed. Returns what is to be said about it.
    pub fn save(&mut self) -> Option<String> {
        let history = {
            let mut state = self.shared.state();
            if !std::mem::take(&mut state.changed) {
                return None;
            }
            state.history.clone()
        };
        self.saved = Instant::now();
        let said = file::save(&self.folder, &history).err().map(|error| {
            self.shared.state().changed = true;
            let folder = Name::from(&self.folder);
            format!("history: cannot write in {folder}: {error}")
        });
        let new = said != self.said;
        self.said.clone_from(&said);
        said.filter(|_| new)
    }

    /// The records.
    #[cfg(test)]
    pub(crate) fn history(&self) -> History {
        self.shared.state().history.clone()
    }

    /// The name of the program that a process said it becomes.
    #[cfg(test)]
    pub(crate) fn started(&self, pid: i32) -> Option<String> {
        let state = self.shared.state();
        state.started.get(&pid).map(|one| one.program.1.clone())
    }

    /// Adds runs as if they had just ended.
    #[cfg(test)]
    pub(crate) fn teach(&self, ended: impl IntoIterator<Item = Ended>) {
        self.shared.state().fold(ended, now_s());
    }
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Whether a process exists, of whatever user.
fn is_there(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}
