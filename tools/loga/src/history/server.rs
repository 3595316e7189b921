// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The socket on which the agent answers. Every user may connect; the kernel says which user
//! it is, and each gets one connection at a time, for a short time.

use super::ask::{Answer, QUESTION_MAX};
use super::keeper::{Answers, Peer};
use crate::http::remove_old;
use nix::sys::socket::{getsockopt, sockopt};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Users that are answered at a time.
const USERS_MAX: usize = 8;
/// Stack of a thread.
const STACK: usize = 256 << 10;
/// TIMEOUT: for the question to be there as a whole; `loga` sends it at once.
const QUESTION_TIME: Duration = Duration::from_millis(250);
/// TIMEOUT: for the answer to be taken.
const ANSWER_TIME: Duration = Duration::from_millis(250);
/// TIMEOUT: until connections are accepted again after that failed, for want of files or memory.
const REST: Duration = Duration::from_millis(100);
/// Mode of the socket: every user may ask for its own records.
const MODE: u32 = 0o666;

/// Users that are answered now.
type Busy = Arc<Mutex<BTreeSet<u32>>>;

/// Answers from now on, in threads of its own.
///
/// # Errors
///
/// Those of the system: the socket or the thread could not be made.
pub fn start(path: &Path, answers: Answers) -> io::Result<()> {
    remove_old(path)?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    let busy = Busy::default();
    let named = thread::Builder::new().name("history".into());
    named.stack_size(STACK).spawn(move || loop {
        let accepted = listener.accept();
        if accepted
            .and_then(|(one, _)| take(one, &busy, &answers))
            .is_err()
        {
            thread::sleep(REST);
        }
    })?;
    Ok(())
}

/// A user that is answered.
struct UserGuard(Busy, u32);

impl UserGuard {
    /// Nothing if the user is answered already, or too many are.
    fn of(busy: &Busy, uid: u32) -> Option<Self> {
        let mut users = busy.lock().unwrap_or_else(PoisonError::into_inner);
        let room = users.len() < USERS_MAX;
        (room && users.insert(uid)).then(|| Self(busy.clone(), uid))
    }
}

impl Drop for UserGuard {
    fn drop(&mut self) {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.remove(&self.1);
    }
}

fn take(stream: UnixStream, busy: &Busy, answers: &Answers) -> io::Result<()> {
    let credentials = getsockopt(&stream, sockopt::PeerCredentials)?;
    let peer = Peer {
        pid: credentials.pid(),
        uid: credentials.uid(),
    };
    let Some(turn) = UserGuard::of(busy, peer.uid) else {
        // The client sees that it is hung up on, and tries again.
        return Ok(());
    };
    let answers = answers.clone();
    let named = thread::Builder::new().name("history".into());
    let mut stream = stream;
    named.stack_size(STACK).spawn(move || {
        let _turn = turn;
        // A client that hangs up concerns that client only.
        let _ = answer(&mut stream, peer, &answers);
    })?;
    Ok(())
}

fn answer(stream: &mut UnixStream, peer: Peer, answers: &Answers) -> io::Result<()> {
    let end = Instant::now() + QUESTION_TIME;
    let mut bytes = vec![0; QUESTION_MAX];
    let mut filled = 0;
    while !bytes.get(..filled).unwrap_or_default().contains(&b'\n') {
        let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) else {
            break;
        };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(room)? {
            0 => break,
            count => filled += count,
        }
    }
    let question = bytes.get(..filled).unwrap_or_default();
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    stream.write_all(&line(&answers.to(peer, question)))
}

fn line(answer: &Answer) -> Vec<u8> {
    // Text and numbers only.
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    line
}
