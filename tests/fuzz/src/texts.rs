// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Files and command lines.

use clap::Parser;
use loga::policies::NAMES;
use loga_cli::cluster::opinion::{opinion, Times, MAX_AGE_S, MAX_GPUS};
use loga_cli::commands::slurm::controller::known;
use loga_cli::commands::spec;
use loga_cli::history::keeper::{Answers, Peer};
use loga_cli::history::table::{KEYS_MAX, KEYS_OF_USER_MAX};
use loga_cli::history::{checked_name, file};
use loga_cli::names::{harmless, is_plain, json, Name};
use loga_eval::scenario::{Profile, Span};
use loga_eval::{replay, scenario};

/// Longest time that a file may ask for, in nanoseconds: a day.
const LONGEST_NS: f64 = 86_400e9;

/// Checks that a reason names a place and a cause.
fn sound(error: &scenario::Error) {
    assert!(!error.place.is_empty(), "{error:?}");
    assert!(!error.reason.is_empty(), "{error:?}");
}

/// A length of time that can be drawn.
fn drawable(span: &Span) {
    let mean = span.mean();
    assert!((0.0..=LONGEST_NS).contains(&mean), "{span:?}: mean {mean}");
}

/// Bytes are changes, one per line, then a line `---`, then the file; or only the file.
///
/// # Panics
///
/// A scenario that cannot run is accepted, or one is refused without a place or a reason.
pub fn run_scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (changes, text) = text.split_once("\n---\n").unwrap_or(("", text));
    let changes: Vec<String> = changes.lines().map(str::to_owned).collect();
    let scenario = match scenario::parse("x.toml", text, &changes) {
        Ok(scenario) => scenario,
        Err(error) => return sound(&error),
    };
    assert!(!scenario.gpus.is_empty());
    assert!(!scenario.clients.is_empty());
    assert!(scenario.seeds > 0);
    assert!(scenario.length.get() > 0);
    assert!(scenario
        .until
        .is_none_or(|until| until < scenario.clients.len()));
    for client in &scenario.clients {
        assert!(client.gpu < scenario.gpus.len(), "{client:?}");
        assert!(!client.phases.is_empty(), "{client:?}");
        assert!(client.deepest() > 0, "{client:?}");
        assert!(client.channels > 0, "{client:?}");
        for phase in &client.phases {
            drawable(&phase.cpu);
            phase.copy.iter().chain(&phase.kernel).for_each(drawable);
        }
        // Both only read.
        let _ = (client.copies(), client.always_wants());
    }
}

/// Bytes are a profile.
///
/// # Panics
///
/// A profile without a valid time alone is accepted, or one is refused without a place or a reason.
pub fn run_profile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Profile::parse("x.toml", text) {
        Ok(profile) => {
            let alone = profile.alone_us();
            assert!(alone.is_finite(), "{alone}");
            assert!(alone >= 0.0, "{alone}");
        }
        Err(error) => sound(&error),
    }
}

/// The first byte chooses a policy, the rest is a recording.
///
/// # Panics
///
/// There is not one decision per line up to the refused one, or a decision is not JSON.
pub fn run_replay(data: &[u8]) {
    let Some((policy, mut recording)) = data.split_first() else {
        return;
    };
    let policy = NAMES[usize::from(*policy) % NAMES.len()];
    let lines = recording.split(|byte| *byte == b'\n');
    let blank = |line: &&[u8]| line.iter().all(u8::is_ascii_whitespace);
    let given = lines.filter(|line| !blank(line)).count();
    let mut decisions = Vec::new();
    let done = replay::replay(policy, "x.jsonl", &mut recording, &mut decisions);
    let made = decisions.iter().filter(|byte| **byte == b'\n').count();
    assert!(made <= given);
    if let Err(error) = &done {
        let said = error.to_string();
        let place = format!("x.jsonl:{}:", 1);
        assert!(said.len() > place.len() || made == 0, "{said}");
    }
    for line in decisions
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let decision: Result<serde_json::Value, _> = serde_json::from_slice(line);
        assert!(decision.is_ok_and(|decision| decision["t_sys_ns"].is_u64()));
    }
}

/// Bytes are what an exporter or the controller of Slurm says.
///
/// # Panics
///
/// A GPU has no valid number or score, comes twice, or old figures count; or a refusal says nothing.
pub fn run_exporter(data: &[u8]) {
    match opinion(data, &Times::default()) {
        Ok(opinion) => {
            assert!(opinion.age_s <= MAX_AGE_S, "{opinion:?}");
            let gpus = &opinion.gpus;
            let valid = |gpu: u32, ppm: u64| gpu < MAX_GPUS && ppm <= 1_000_000;
            assert!(gpus.iter().all(|one| valid(one.gpu, one.ppm)), "{gpus:?}");
            assert!(gpus.windows(2).all(|two| two[0].gpu < two[1].gpu));
        }
        Err(error) => {
            assert!(!error.is_empty(), "{error:?}");
            assert!(!error.contains('\n'), "{error:?}");
        }
    }
    let text = String::from_utf8_lossy(data);
    assert!(known(&text).len() <= text.lines().count());
}

/// Bytes are the file of the history, and a question to the agent.
///
/// # Panics
///
/// What is accepted is beyond the bounds of the table or is not read again as it was, or a refusal
/// is not one line; or an agent that knows nothing says something about programs.
pub fn run_history(data: &[u8]) {
    match file::parse(data) {
        Ok(history) => {
            assert!(history.all().count() <= KEYS_MAX);
            for (key, record) in history.all() {
                assert!(history.of(key.uid).count() <= KEYS_OF_USER_MAX);
                assert!(key.name.is_empty() || checked_name(&key.name).is_ok());
                assert!(!record.models.is_empty());
                // Sums of what was accepted.
                let _ = (record.runs(), history.typical_ns(key.uid));
            }
            assert_eq!(file::parse(&file::text(&history)), Ok(history));
        }
        Err(error) => {
            assert!(!error.is_empty(), "{error:?}");
            assert!(!error.contains('\n'), "{error:?}");
        }
    }
    let peer = Peer { pid: 1, uid: 1 };
    let answer = Answers::default().to(peer, data);
    assert!(answer.record.is_none());
    assert!(answer.typical_ns.is_none());
    assert!(answer.running.is_empty());
}

/// Whether a terminal does nothing but show it.
fn is_harmless(text: &str) -> bool {
    text.chars().all(is_plain)
}

/// Bytes are a name if the first is even, else a file of `loga spec`.
///
/// # Panics
///
/// What is printed or written as JSON is not harmless, or is not read again as the same name; or a
/// refusal of a file is not one harmless line.
pub fn run_names(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    if first % 2 == 1 {
        if let Err(error) = spec::checked(&text) {
            assert!(!error.is_empty(), "{error:?}");
            assert!(is_harmless(&error), "{error:?}");
        }
        return;
    }
    let name = Name::from(bytes);
    let printed = name.to_string();
    assert!(is_harmless(&printed), "{printed:?}");
    assert_eq!(Name::read(&printed), Ok(name.clone()));
    let quoted = format!("{name:?}");
    assert_eq!(
        Name::read_quoted(&format!("{quoted}:x")),
        Ok((name.clone(), quoted.len()))
    );
    assert!(is_harmless(&harmless(&text)));
    let mut out = Vec::new();
    json::write(&mut out, &name).expect("memory");
    let written = String::from_utf8(out).expect("JSON is text");
    assert!(is_harmless(&written), "{written:?}");
    assert_eq!(
        serde_json::from_str::<String>(&written).expect("JSON"),
        text
    );
    assert_eq!(name.hex().is_none(), std::str::from_utf8(bytes).is_ok());
    // One of a line, whatever it is read as.
    if !bytes.is_empty() {
        assert_eq!(spec::checked(&format!("@user={quoted}:HT:-:1:-:-")), Ok(1));
    }
    // What is read, whatever it is, is read so again.
    if let Ok(name) = Name::read(&text) {
        assert_eq!(Name::read(&name.to_string()), Ok(name));
    }
}

/// Bytes are a command line of `loga` if the first is even, else of `throttle`.
///
/// # Panics
///
/// A senseless number is accepted, or a message has no first line.
pub fn run_words(data: &[u8]) {
    let Some((first, line)) = data.split_first() else {
        return;
    };
    let Ok(line) = std::str::from_utf8(line) else {
        return;
    };
    if first % 2 == 0 {
        let words = std::iter::once("loga").chain(line.split_whitespace());
        if let Err(error) = loga_cli::cli::Arguments::try_parse_from(words) {
            let said = loga_cli::cli::one_line(&error);
            assert!(!said.is_empty(), "{said:?}");
            assert!(!said.contains('\n'), "{said:?}");
        }
        // Neither reads anything but the text and, for a path, the file system.
        let directory = loga_cli::directory::Directory::default();
        let name = Name::from(line);
        if let Ok(uid) = directory.user_id(&name) {
            assert_ne!(uid, u32::MAX);
        }
        let _ = directory.cgroup_id(&name);
        return;
    }
    let words = std::iter::once("throttle").chain(line.split_whitespace());
    let Ok(plan) = throttle::plan::Plan::try_parse_from(words) else {
        return;
    };
    if let Err(error) = plan.check() {
        assert!(!error.to_string().is_empty());
    }
}
