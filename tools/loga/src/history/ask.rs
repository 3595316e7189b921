// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What a program that starts asks the agent, and the answer: a line of JSON each.

use super::record::Record;
use super::table::Exe;
use crate::names::Name;
use nix::sys::socket::{self, socket, AddressFamily, SockFlag, SockType, UnixAddr};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The layout of both lines.
pub const VERSION: u32 = 1;
/// Longest question.
pub const QUESTION_MAX: usize = 4096;
/// Longest answer: a record and some running clients.
const ANSWER_MAX: u64 = 256 << 10;
/// TIMEOUT: the agent answers from memory; a command does not wait longer for it to start. Tests wait
/// for agents that get the processor rarely.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 300_000 } else { 500 });
/// TIMEOUT: of the programs of a user that ask at a time one is answered, in less than a
/// millisecond; pauses part the others: 0.4 s in all, in tests minutes.
const TRIES: u32 = if cfg!(test) { 500 } else { 20 };
/// Pause after the first try; after the second twice that, and so on.
const PAUSE: Duration = Duration::from_millis(2);

/// A question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// [`VERSION`].
    pub version: u32,
    /// The executable, if it is known.
    pub exe: Option<Exe>,
    /// The name that `--as` gives, or nothing.
    pub name: String,
    /// Whether the process that asks becomes this program.
    pub starts: bool,
}

/// A running client of the user that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    /// Its GPU.
    pub gpu: u32,
    /// Its number there.
    pub client: u64,
    /// Mean time alone of the runs of its program, in nanoseconds.
    pub time_ns: u64,
}

/// An answer: all of it is about the user that asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// [`VERSION`].
    pub version: u32,
    /// Why there is none.
    pub error: Option<String>,
    /// The runs of the program.
    pub record: Option<Record>,
    /// The mean time alone of all its programs, in nanoseconds.
    pub typical_ns: Option<u64>,
    /// Its clients whose time is known.
    pub running: Vec<Running>,
}

/// What is known of earlier runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// No program was named.
    NotAsked,
    /// The agent does not answer, and why.
    Silent(String),
    /// What it says.
    Answer(Box<Answer>),
}

/// Asks the agent.
pub fn ask(socket: &Path, exe: Option<Exe>, name: &str, starts: bool) -> Heard {
    let question = Question {
        version: VERSION,
        exe,
        name: name.to_string(),
        starts,
    };
    let mut answered = call(socket, &question);
    for tries in 1..TRIES {
        if !answered.as_ref().is_err_and(hung_up) {
            break;
        }
        std::thread::sleep(PAUSE.saturating_mul(tries));
        answered = call(socket, &question);
    }
    match answered {
        Ok(Answer {
            error: Some(error), ..
        }) => Heard::Silent(format!("the agent says: {error}")),
        Ok(answer) => Heard::Answer(Box::new(answer)),
        Err(error) => Heard::Silent(format!(
            "no agent answers at {}: {error}",
            Name::from(socket)
        )),
    }
}

/// Whether the agent hung up: it answers one program of a user at a time.
fn hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionReset, UnexpectedEof].contains(&error.kind())
}

fn call(socket: &Path, question: &Question) -> io::Result<Answer> {
    let mut stream = connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(question)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let answer: Answer = serde_json::from_slice(&bytes)?;
    if answer.version == VERSION {
        return Ok(answer);
    }
    let version = answer.version;
    Err(io::Error::other(format!("it speaks version {version}")))
}

/// A connection, unless so many wait already that one more would have to wait: an agent that is
/// stopped holds up no command.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let file = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    socket::connect(file.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(file);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The executable of a command, searched as the shell does in `path`, the value of `PATH`.
pub fn executable(program: &OsStr, path: Option<&OsStr>) -> Option<Exe> {
    if program.as_encoded_bytes().contains(&b'/') {
        return exe(Path::new(program));
    }
    let folders = std::env::split_paths(path?);
    folders
        .map(|folder| folder.join(program))
        .find_map(|file: PathBuf| exe(&file))
}

/// A file that can be run.
pub fn exe(path: &Path) -> Option<Exe> {
    let data = fs::metadata(path).ok()?;
    let runs = data.is_file() && data.permissions().mode() & 0o111 != 0;
    let seconds = data.mtime().saturating_mul(1_000_000_000);
    runs.then(|| Exe {
        device: data.dev(),
        inode: data.ino(),
        mtime_ns: seconds.saturating_add(data.mtime_nsec()),
    })
}
