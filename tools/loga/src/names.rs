// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Names from outside, and numbers of the kernel in words.
//!
//! | file | contents |
//! |---|---|
//! | `name` | [`Name`]: any bytes, safe to print |
//! | `quoting` | how they are written and read |
//! | [`json`] | the same for JSON |

pub mod json;
mod name;
mod quoting;

pub use name::Name;
pub use quoting::{harmless, is_plain, Wrong};

use clap::builder::PossibleValue;
use clap::ValueEnum;
use loga::account::Accounting;
use loga::knobs::Scale;
use loga::policies::dispatch::DispatcherKind;
use loga::share::GroupBy;
use loga::uapi;

/// A zero-terminated name.
pub fn text(bytes: &[u8]) -> Name {
    let end = bytes.iter().position(|byte| *byte == 0);
    Name::from(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default())
}

/// Where a GPU sits, such as `0001:01:00.0`.
pub fn pci(domain: u32, bdf: u32) -> String {
    format!(
        "{domain:04x}:{:02x}:{:02x}.{}",
        (bdf >> 8) & 0xff,
        (bdf >> 3) & 0x1f,
        bdf & 7
    )
}

/// The word for a number, or the number itself if this program is older than the word.
fn word(what: &str, words: &[&str], number: u64) -> String {
    let word = usize::try_from(number).ok().and_then(|at| words.get(at));
    word.map_or_else(|| format!("{what} {number}"), ToString::to_string)
}

/// What a client does.
pub fn state(number: u32) -> String {
    word("state", &["idle", "running", "throttled"], number.into())
}

/// Why a client is throttled.
pub fn throttled_by(number: u64) -> String {
    word(
        "throttled_by",
        &["none", "policy", "limit", "class", "reserve"],
        number,
    )
}

/// Classes, in the order of `CLASS_*`.
pub const CLASSES: [&str; 2] = ["normal", "idle"];

/// A class that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Divides the GPU with the others.
    Normal,
    /// Runs only while no other wants the GPU.
    Idle,
}

impl Class {
    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::Normal => uapi::CLASS_NORMAL,
            Self::Idle => uapi::CLASS_IDLE,
        }
    }
}

impl ValueEnum for Class {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Normal, Self::Idle]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(class(self.number())))
    }
}

/// Class of a client.
pub fn class(number: u32) -> String {
    word("class", &CLASSES, number.into())
}

/// Whether processes may open a GPU.
pub const ACCESS: [&str; 2] = ["allowed", "denied"];

/// Access that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Processes may open a GPU.
    Allowed,
    /// They may not.
    Denied,
}

impl Access {
    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::Allowed => uapi::ACCESS_ALLOWED,
            Self::Denied => uapi::ACCESS_DENIED,
        }
    }
}

impl ValueEnum for Access {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Allowed, Self::Denied]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(access(self.number())))
    }
}

/// Whether processes may open a GPU.
pub fn access(number: u32) -> String {
    word("access", &ACCESS, number.into())
}

/// What the GPU is divided between.
pub fn group_by(number: u32) -> String {
    word("group_by", GroupBy::NAMES, number.into())
}

/// How the UUID of a GPU begins.
pub(crate) const UUID: &str = "GPU-";

/// What something can be set for, in the order of `SUBJECT_*`.
pub fn subject(number: u32) -> String {
    word("subject", &["process", "user", "cgroup"], number.into())
}

/// Modes of engaged scheduling, in the order of `MODE_*`.
pub const MODES: [&str; 3] = ["prt", "ht", "protected"];

/// Mode of a client.
pub fn mode(number: u32) -> String {
    word("mode", &MODES, number.into())
}

/// Kinds of reserves, in the order of `RESERVE_*`.
pub const RESERVES: [&str; 4] = ["none", "pe", "ae", "cbs"];

/// Kind of a reserve.
pub fn reserve(number: u32) -> String {
    word("reserve", &RESERVES, number.into())
}

/// What a reserve promises, in a word; nothing for one that promises nothing.
pub const fn promise(number: u64) -> Option<&'static str> {
    match number {
        uapi::PROMISE_DEADLINE => Some("deadline"),
        uapi::PROMISE_SHARE => Some("share"),
        _ => None,
    }
}

/// Why submissions were late, and how many of them for each cause.
pub const fn misses(misses: &uapi::Misses) -> [(&'static str, u64); 5] {
    [
        ("promised", misses.promised),
        ("own-overrun", misses.own),
        ("foreign-command", misses.foreign),
        ("fallback", misses.fallback),
        ("order", misses.order),
    ]
}

/// Dispatcher of submissions.
pub fn dispatch(kind: Option<DispatcherKind>) -> String {
    kind.map_or("none", DispatcherKind::name).to_string()
}

/// Way of accounting.
pub fn accounting(number: u32) -> String {
    word("accounting", Accounting::NAMES, number.into())
}

/// What phases grow with.
pub fn scale(number: u32) -> String {
    word("scale", Scale::NAMES, number.into())
}

/// Kinds of events, in the order of `EVENT_*`.
pub const EVENTS: [&str; uapi::EVENT_KINDS as usize] = [
    "appeared",
    "throttled",
    "released",
    "exited",
    "fallback",
    "gpu-lost",
    "policy",
    "gpu-back",
    "unknown",
    "evasion",
    "elsewhere",
    "missed",
    "void",
    "exceeded",
    "breached",
    "turn",
    "engaged",
    "stuck",
];

/// Kind of an event.
pub fn event(number: u32) -> String {
    word("event", &EVENTS, number.into())
}

/// Why all clients run.
pub fn fallback(number: u64) -> String {
    let words = [
        "contract",
        "late",
        "idle-throttle",
        "overrun",
        "submission",
        "silent",
    ];
    word("fallback", &words, number)
}

/// Position of a word in a list, for the kernel.
pub fn number(words: &[&str], word: &str) -> Option<u32> {
    let at = words.iter().position(|known| *known == word)?;
    u32::try_from(at).ok()
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod word_tests {
    use super::*;

    #[test]
    fn name_ends_at_its_terminator_or_without_one() {
        assert_eq!(text(b"abc"), "abc");
        assert_eq!(text(b"a\x1b[2Jb\0c"), "a\x1b[2Jb");
        assert_eq!(text(b"\0"), "");
    }

    #[test]
    fn words_are_those_of_the_numbers() {
        assert_eq!(state(uapi::STATE_THROTTLED), "throttled");
        assert_eq!(throttled_by(uapi::THROTTLED_BY_CLASS.into()), "class");
        assert_eq!(throttled_by(uapi::THROTTLED_BY_RESERVE.into()), "reserve");
        assert_eq!(class(uapi::CLASS_IDLE), "idle");
        assert_eq!(group_by(uapi::GROUP_BY_CGROUP), "cgroup");
        assert_eq!(subject(uapi::SUBJECT_CGROUP), "cgroup");
        assert_eq!(accounting(Accounting::Sparse as u32), "sparse");
        assert_eq!(scale(Scale::Active as u32), "active");
        assert_eq!(event(uapi::EVENT_POLICY), "policy");
        assert_eq!(fallback(uapi::FALLBACK_OVERRUN), "overrun");
        assert_eq!(event(uapi::EVENT_ENGAGED), "engaged");
        assert_eq!(event(uapi::EVENT_STUCK), "stuck");
        assert_eq!(fallback(uapi::FALLBACK_SILENT), "silent");
        assert_eq!(mode(uapi::MODE_HT), "ht");
        assert_eq!(reserve(uapi::RESERVE_CBS), "cbs");
        assert_eq!(state(77), "state 77");
        assert_eq!(number(&CLASSES, "idle"), Some(uapi::CLASS_IDLE));
        assert_eq!(number(&ACCESS, "denied"), Some(uapi::ACCESS_DENIED));
        assert_eq!(number(&CLASSES, "clients"), None);
    }
}
