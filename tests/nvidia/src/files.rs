// SPDX-License-Identifier: GPL-2.0

//! `[tool]` GPU files that are open although there is no GPU.
//!
//! Since branch 545 a driver opens a GPU file with O_NONBLOCK at once and starts the GPU in the
//! background. WAIT_OPEN_COMPLETE returns the outcome; the file stays open after a failure.
//! Source: the driver's `nv.c`, 550.

use crate::calls;
use std::fs::File;
use std::io::{BufRead, Error, Write};
use std::os::fd::AsRawFd;

/// Most files that are open at a time.
const FILES_MAX: usize = 8;

/// For each line on standard input: one more file, then the questions on all of them. At the end
/// of the input all are closed.
pub(crate) fn rounds(version: &str) {
    let mut files = Vec::new();
    for round in 1..=FILES_MAX {
        let mut line = String::new();
        if !matches!(std::io::stdin().lock().read_line(&mut line), Ok(1..)) {
            break;
        }
        match open() {
            Ok(file) => files.push(file),
            Err(error) => println!("round {round}: open: {error}"),
        }
        for (index, file) in files.iter().enumerate() {
            for answer in answers(file, version) {
                println!("round {round}: file {index}: {answer}");
            }
        }
        println!("round {round} done");
        std::io::stdout().flush().ok();
    }
}

pub(crate) fn open() -> Result<File, Error> {
    calls::open("/dev/nvidia0", libc::O_NONBLOCK)
}

/// All answers of an open GPU file, without parts that differ between clients.
pub(crate) fn answers(file: &File, version: &str) -> Vec<String> {
    let mut answers = Vec::new();
    let mut add_answer = |what: &str, (answer, bytes): (String, Vec<u8>)| {
        answers.push(format!("{what}: {answer} {}", calls::hex(&bytes)));
    };
    let ask = |call, argument: &[u8]| calls::make(file, call, argument);
    let zeros = [0; 64];
    add_answer("wait", ask(calls::WAIT_OPEN_COMPLETE, &zeros[..8]));
    let version = calls::version(version);
    add_answer("version", ask(calls::CHECK_VERSION, &version));
    add_answer("unknown", ask(calls::UNKNOWN, &zeros[..16]));
    let mapping = &zeros[..calls::MAP_MEMORY.1];
    add_answer("map nothing", ask(calls::MAP_MEMORY, mapping));
    let (answer, mut bytes) = ask(calls::RM_ALLOC, &calls::client());
    let handle = bytes[8..12].to_vec();
    bytes[8..12].fill(0);
    add_answer("client", (answer, bytes));
    let (answer, bytes) = ask(calls::RM_FREE, &calls::free(&handle));
    add_answer("free", (answer, bytes[12..].to_vec()));
    answers.push(format!("register: {}", register(file)));
    answers.push(format!("shared: {}", calls::map(file, libc::MAP_SHARED)));
    answers.push(format!("private: {}", calls::map(file, libc::MAP_PRIVATE)));
    answers.push(format!("poll: {}", poll(file)));
    answers.push(format!("child: {}", child(file)));
    answers.extend(fdinfo(file));
    answers
}

/// Registers a control file with the GPU file.
fn register(file: &File) -> String {
    match calls::open("/dev/nvidiactl", 0) {
        Ok(control) => calls::make(file, calls::REGISTER_FD, &control.as_raw_fd().to_le_bytes()).0,
        Err(error) => format!("no control file: {error}"),
    }
}

/// The events that the file is ready for, without waiting.
fn poll(file: &File) -> String {
    let mut polled = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN | libc::POLLPRI,
        revents: 0,
    };
    // SAFETY: One structure, which is ours.
    let ready = unsafe { libc::poll(&mut polled, 1, 0) };
    format!("{ready} {:#x}", polled.revents)
}

/// Closes the file in a child, which must not end it for the parent.
fn child(file: &File) -> String {
    // SAFETY: The child makes two system calls and nothing else. This program has one thread.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: Both act on this process alone.
        unsafe {
            let closed = libc::close(file.as_raw_fd());
            libc::_exit(closed & 0xff);
        }
    }
    let mut status = 0;
    // SAFETY: `status` is ours.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    format!("{} {status}", waited == pid)
}

/// The lines of the file in `/proc/self/fdinfo`.
fn fdinfo(file: &File) -> Vec<String> {
    let path = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
    match std::fs::read_to_string(path) {
        Ok(text) => text.lines().map(|line| format!("fdinfo: {line}")).collect(),
        Err(error) => vec![format!("fdinfo: {error}")],
    }
}
