// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The same round in a loop until a file asks for the end; counts the rounds, and those
//! that differ from the first.

use crate::{calls, files};
use std::io::Error;
use std::path::Path;
use std::time::Duration;

/// Most differing rounds that are printed.
const SHOWN_MAX: usize = 3;
/// Longest time that a GPU file stays open, in ms: longer than an attachment in the storm.
const HELD_MS: u64 = 5_000;

/// A round: its answers, or why there are none.
type Round = Result<Vec<String>, Error>;

/// Makes rounds until the file `stop` exists, and prints their outcome. The first round must get
/// the answers of every driver; all others must be like it.
pub(crate) fn run(name: &str, stop: &Path, mut round: impl FnMut() -> Round) {
    let (mut rounds, mut failed, mut other) = (0_u64, 0_u64, 0_usize);
    let mut first: Option<Vec<String>> = None;
    while !stop.exists() {
        rounds += 1;
        match (round(), &first) {
            (Err(error), _) => {
                println!("{name}: round {rounds}: {error}");
                failed += 1;
            }
            (Ok(answers), None) => first = Some(answers),
            (Ok(answers), Some(first)) if answers != *first => {
                if other < SHOWN_MAX {
                    println!("{name}: round {rounds}: {answers:?} instead of {first:?}");
                }
                other += 1;
            }
            (Ok(_), Some(_)) => {}
        }
    }
    println!("{name}: {rounds} rounds, {failed} failed, {other} other answers");
}

/// A control file: version, cards, a client made and freed, a call that the driver lacks.
///
/// # Errors
///
/// The file cannot be opened, or an answer is not that of any driver.
pub(crate) fn control(version: &str) -> Round {
    let file = calls::open("/dev/nvidiactl", 0)?;
    let mut answers = Vec::new();
    let mut add_answer = |(answer, bytes): (String, Vec<u8>)| {
        answers.push(format!("{answer} {}", calls::hex(&bytes)));
    };
    let ask = |call, argument: &[u8]| calls::make(&file, call, argument);
    add_answer(ask(calls::CHECK_VERSION, &calls::version(version)));
    add_answer(ask(calls::CARD_INFO, &[0; calls::CARD_INFO.1]));
    let (answer, mut bytes) = ask(calls::RM_ALLOC, &calls::client());
    let handle = bytes[8..12].to_vec();
    if handle == [0; 4] {
        return Err(Error::other(format!("no client was made: {answer}")));
    }
    bytes[8..12].fill(0);
    add_answer((answer, bytes));
    let (answer, bytes) = ask(calls::RM_FREE, &calls::free(&handle));
    add_answer((answer, bytes[12..].to_vec()));
    let (answer, bytes) = ask(calls::UNKNOWN, &[0; calls::UNKNOWN.1]);
    if answer != Error::from_raw_os_error(libc::EINVAL).to_string() {
        return Err(Error::other(format!("an unknown call gave {answer}")));
    }
    add_answer((answer, bytes));
    Ok(answers)
}

/// As `control`, and a GPU file that the driver refuses, for it cannot start the GPU.
///
/// # Errors
///
/// As `control`; or the GPU file is not refused in the driver's way.
pub(crate) fn refused(version: &str) -> Round {
    match calls::open("/dev/nvidia0", 0) {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => control(version),
        Err(error) => Err(error),
        Ok(_) => Err(Error::other("the GPU file was opened")),
    }
}

/// A GPU file that waits for its GPU, asked when it is opened and again before it is closed, after
/// another time in every round.
pub(crate) fn waiting(version: &str) -> Round {
    let file = files::open()?;
    let unchanging = |answers: Vec<String>| -> Vec<String> {
        answers
            .into_iter()
            .filter(|answer| !answer.starts_with("fdinfo: drm-"))
            .collect()
    };
    let mut answers = unchanging(files::answers(&file, version));
    std::thread::sleep(Duration::from_millis(pause_ms()));
    answers.extend(unchanging(files::answers(&file, version)));
    Ok(answers)
}

/// Mostly short times, now and then long ones.
fn pause_ms() -> u64 {
    let mut bytes = [0; 2];
    // SAFETY: Writes at most two bytes, which are ours.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let random = u64::from(u16::from_le_bytes(bytes));
    // Squared, so that a quarter of them is below a sixteenth of the longest.
    HELD_MS * random / 65_536 * random / 65_536
}
