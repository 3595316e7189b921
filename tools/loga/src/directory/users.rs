// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Users: the system's own list, and its name service for those that are not in it.

use crate::names::Name;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// TIMEOUT: one answer of the name service. A directory in the network that is slower is not asked
/// again: no command waits longer than this for names.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest answer that is read.
const ANSWER_MAX: u64 = 64 << 10;

/// The name service of the system, which may ask directories in the network.
///
/// A program that is linked statically cannot load its modules: `getent`, which the C library brings
/// along, asks for it.
#[derive(Clone, Debug)]
pub(super) struct Service {
    program: PathBuf,
    /// Names by number; nothing for users without one.
    known: RefCell<BTreeMap<u32, Option<Name>>>,
    /// Numbers by name; nothing for names without one.
    numbers: RefCell<BTreeMap<Name, Option<u32>>>,
    /// Whether it was too slow once.
    silent: Cell<bool>,
    patience: Duration,
}

impl Service {
    /// What this program answers.
    pub(super) fn of(program: &Path) -> Self {
        Self {
            program: program.to_path_buf(),
            known: RefCell::default(),
            numbers: RefCell::default(),
            silent: Cell::new(false),
            patience: PATIENCE,
        }
    }

    /// The same, which waits this long for an answer.
    #[cfg(test)]
    pub(super) fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Whether it has answered each time in time.
    pub(super) fn answers(&self) -> bool {
        !self.silent.get()
    }

    /// Number of the user of this name. It is asked once.
    pub(super) fn number(&self, name: &Name) -> Option<u32> {
        if let Some(known) = self.numbers.borrow().get(name) {
            return *known;
        }
        let number = self.ask(name.as_os_str()).map(|(uid, _)| uid);
        self.numbers.borrow_mut().insert(name.clone(), number);
        number
    }

    /// The same, which asks once more for what it did not find.
    pub(super) fn again(mut self) -> Self {
        self.silent.set(false);
        self.known.get_mut().retain(|_, name| name.is_some());
        self.numbers.get_mut().retain(|_, number| number.is_some());
        self
    }

    /// Name of the user with this number. It is asked once.
    pub(super) fn name(&self, uid: u32) -> Option<Name> {
        if let Some(known) = self.known.borrow().get(&uid) {
            return known.clone();
        }
        let key = uid.to_string();
        let found = self.ask(OsStr::new(&key));
        // A user's name may be another one's number.
        let name = found.filter(|(of, _)| *of == uid).map(|(_, name)| name);
        self.known.borrow_mut().insert(uid, name.clone());
        name
    }

    /// The first line of an answer.
    fn ask(&self, key: &OsStr) -> Option<(u32, Name)> {
        if self.silent.get() || key.as_bytes().contains(&0) {
            return None;
        }
        let mut asked = Command::new(&self.program)
            .args([OsStr::new("passwd"), OsStr::new("--"), key])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let out = asked.stdout.take()?;
        let (sender, receiver) = mpsc::channel();
        let reading = thread::Builder::new().spawn(move || {
            let mut text = Vec::new();
            // What it cannot read is no line.
            let _ = out.take(ANSWER_MAX).read_to_end(&mut text);
            let _ = sender.send(text);
        });
        let answer = receiver.recv_timeout(self.patience);
        self.silent.set(answer.is_err());
        // It has ended, or is too slow; the thread ends with it.
        let _ = asked.kill();
        let _ = asked.wait();
        reading.ok()?;
        lines(&answer.ok()?).into_iter().next()
    }
}

/// Number and name of each user in lines of passwd(5).
pub(super) fn lines(text: &[u8]) -> Vec<(u32, Name)> {
    text.split(|byte| *byte == b'\n').filter_map(line).collect()
}

fn line(line: &[u8]) -> Option<(u32, Name)> {
    let mut fields = line.split(|byte| *byte == b':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let uid = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
    Some((uid, name.into()))
}
