// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Fuzz targets: the code that reads bytes from outside, and its properties for any bytes.
//!
//! A target takes any bytes and panics if a property is violated. `make fuzz` runs each under a
//! coverage-guided fuzzer; `cargo test` replays the inputs of `corpus/TARGET.tar`, among them every
//! one that once found a mistake. Where an answer can be computed in another way, both are
//! compared: a target that could only crash would miss a wrong answer.
//!
//! | target | bytes are | file |
//! |---|---|---|
//! | `rm` | an ioctl of the driver and its argument | [`rm`] |
//! | `slots` | a mapping, BAR1 and the slots in it | [`slots`] |
//! | `registers` | the answers of a card, read by read | [`registers`] |
//! | `calls` | an argument of `/dev/loga` | [`calls`] |
//! | `events` | events and reads of a listener's queue | [`calls`] |
//! | `scenario` | a scenario file, and changes to it | [`texts`] |
//! | `profile` | a profile of an application | [`texts`] |
//! | `replay` | recorded observations | [`texts`] |
//! | `exporter` | the text of an exporter, and what the controller says of nodes | [`texts`] |
//! | `history` | the file of the history, or a question to the agent | [`texts`] |
//! | `names` | a name of anything, or a file of `loga spec` | [`texts`] |
//! | `words` | command lines of `loga` and `throttle` | [`texts`] |

#![forbid(unsafe_code)]

pub mod calls;
mod input;
pub mod registers;
pub mod rm;
pub mod slots;
pub mod texts;

/// The function that checks an input.
pub type Target = fn(&[u8]);

/// Every target, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("rm", rm::run),
    ("slots", slots::run),
    ("registers", registers::run),
    ("calls", calls::run),
    ("events", calls::run_events),
    ("scenario", texts::run_scenario),
    ("profile", texts::run_profile),
    ("replay", texts::run_replay),
    ("exporter", texts::run_exporter),
    ("history", texts::run_history),
    ("names", texts::run_names),
    ("words", texts::run_words),
];

/// The target with this name.
pub fn target(name: &str) -> Option<Target> {
    let found = TARGETS.iter().find(|(other, _)| *other == name);
    found.map(|(_, target)| *target)
}
