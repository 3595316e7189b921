// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga doctor`: what LoGA needs of this machine, and what of it is there.

use super::{print_json, Failure, JSON_VERSION};
use crate::cli;
use crate::doctor::machine::Machine;
use crate::doctor::{examine, Answer, Finding, State};
use crate::names::harmless;
use serde::Serialize;
use std::io::{self, Write};

/// An object of `loga doctor --json`.
#[derive(Serialize)]
struct Line<'a> {
    version: u32,
    #[serde(flatten)]
    finding: &'a Finding,
}

/// Prints what was found.
///
/// # Errors
///
/// [`Failure::Text`] if something is wrong, after everything was printed; [`Failure::Print`].
pub fn run(
    arguments: &cli::Doctor,
    machine: &Machine,
    answer: &Answer,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let found = examine(machine, answer);
    for finding in &found {
        if arguments.json {
            let version = JSON_VERSION;
            print_json(out, &Line { version, finding })?;
        } else {
            print(finding, out)?;
        }
    }
    out.flush()?;
    let wrong = found.iter().filter(|one| one.state == State::Wrong).count();
    match wrong {
        0 => Ok(()),
        1 => Err(Failure::Text("one thing is wrong".to_string())),
        many => Err(Failure::Text(format!("{many} things are wrong"))),
    }
}

fn print(finding: &Finding, out: &mut impl Write) -> io::Result<()> {
    let state = match finding.state {
        State::Fine => "ok",
        State::Note => "note",
        State::Wrong => "WRONG",
    };
    // What it read in the system is of others.
    let (about, says) = (finding.about, harmless(&finding.says));
    writeln!(out, "{state:<6}{about:<12}{says}")?;
    match &finding.help {
        Some(help) => writeln!(out, "{:18}-> {}", "", harmless(help)),
        None => Ok(()),
    }
}

/// How it is, in one line: for a caller that did not say what it wants.
pub fn in_short(answer: &Answer) -> String {
    let snapshots = match answer {
        Ok(snapshots) => snapshots,
        Err(error) => return format!("{error}\n`loga doctor` says what is there and what is not"),
    };
    let clients: usize = snapshots.iter().map(|one| one.clients.len()).sum();
    let mut words: Vec<String> = snapshots
        .iter()
        .map(|one| {
            let config = one.info.config();
            let policy = config.policy.name();
            let mode = match config.enforce {
                true => "enforced",
                false => "accounting only",
            };
            format!("GPU {}: policy {policy}, {mode}", one.gpu)
        })
        .collect();
    let clients = match clients {
        0 => "no program uses a GPU".to_string(),
        1 => "one client".to_string(),
        many => format!("{many} clients"),
    };
    words.push(clients);
    format!(
        "{}\n`loga stat` prints what each got, `loga top` shows it all the time",
        words.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::error::Error;
    use crate::fake::FakeKernel;

    fn answer() -> Answer {
        let fake = FakeKernel::new(1);
        Control::over(&fake).chosen(None)
    }

    fn printed(answer: &Answer, json: bool) -> (String, Option<String>) {
        let mut out = Vec::new();
        let arguments = cli::Doctor { json };
        let result = run(&arguments, &Machine::default(), answer, &mut out);
        let text = String::from_utf8(out).expect("text");
        (text, result.err().map(|failure| failure.to_string()))
    }

    #[test]
    fn what_is_wrong_is_an_error_after_everything_is_printed() {
        let (text, failure) = printed(&Err(Error::NotLoaded), false);
        assert!(text.contains("WRONG /dev/loga"), "{text}");
        assert!(text.contains("-> sudo modprobe loga"), "{text}");
        assert!(failure.expect("an error").contains("wrong"));
    }

    #[test]
    fn json_has_an_object_for_each_finding() {
        let (text, _) = printed(&answer(), true);
        for line in text.lines() {
            let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(object["version"], JSON_VERSION);
            assert!(object["about"].is_string());
            assert!(object["says"].is_string());
        }
        assert!(text.lines().count() >= 3, "{text}");
    }

    #[test]
    fn short_form_names_the_next_command() {
        assert!(in_short(&answer()).contains("`loga stat`"));
        assert!(in_short(&Err(Error::NotLoaded)).contains("`loga doctor`"));
    }
}
