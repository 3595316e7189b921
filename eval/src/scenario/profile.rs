// SPDX-License-Identifier: GPL-2.0

//! Profiles: the work of an application on the GPU, each value with its source.
//!
//! A file of `eval/profiles` describes one iteration of an application by phases as a scenario has
//! them. The table `from` has the source of every value; a value without one is refused.

use super::file;
use super::phase::phase;
use super::plain::{Error, Phase};
use super::text::Text;
use super::time::Span;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// First words of an origin, and what they mean.
const KINDS: &[(&str, &str)] = &[
    ("paper", "the LoGA paper says so"),
    ("code", "the application's source says so"),
    ("derived", "calculated from such"),
    ("measured", "measured"),
    ("assumed", "no source"),
];

/// Builds the table of the profiles that come with the program.
macro_rules! built_in {
    ($($name:literal)+) => {
        &[$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),+]
    };
}

/// The profiles that come with the program: the applications of the paper's figures.
const BUILT_IN: &[(&str, &str)] = built_in! {
    "b+tree" "backprop" "bfs" "cfd" "dwt2d" "gaussian" "heartwall" "hotspot" "hotspot3D" "huffman"
    "hybridsort" "kmeans" "lavaMD" "leukocyte" "lud" "mummergpu" "myocyte" "nn" "nw"
    "particlefilter" "pathfinder" "srad_v1" "streamcluster"
};

/// What an application does with the GPU.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it does, and what one iteration is.
    pub what: String,
    /// How it is called.
    pub command: String,
    /// One iteration.
    pub phases: Vec<Phase>,
    /// Its values: `PHASE.KEY`, the value as it is written, and its source.
    pub values: Vec<Value>,
}

/// A value of a profile.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Value {
    /// Number of its phase and its key.
    pub name: String,
    /// The value as it is written.
    pub value: String,
    /// Its source.
    pub from: String,
}

/// A profile as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    application: Spanned<String>,
    what: String,
    command: String,
    #[serde(rename = "phase")]
    phases: Spanned<Vec<Spanned<Described>>>,
}

/// A phase as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    cpu_us: Option<Spanned<Span>>,
    copy_us: Option<Spanned<Span>>,
    kernel_us: Option<Spanned<Span>>,
    launch: Option<Spanned<file::Launch>>,
    depth: Option<Spanned<u64>>,
    repeat: Option<Spanned<u64>>,
    #[serde(default)]
    from: BTreeMap<Spanned<String>, Spanned<String>>,
}

impl Profile {
    /// Names of the profiles that come with the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The profile of this name, or in this file if it ends in `.toml`, as seen from `folder`.
    ///
    /// # Errors
    ///
    /// There is none, or it makes no sense.
    pub fn find(name: &str, folder: &Path) -> Result<Self, Error> {
        if name.ends_with(".toml") {
            let path = folder.join(name);
            let place = path.display().to_string();
            let text = std::fs::read_to_string(&path).map_err(|error| Error {
                place: place.clone(),
                reason: error.to_string(),
            })?;
            return Self::parse(&place, &text);
        }
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(&format!("eval/profiles/{name}.toml"), text),
            None => {
                let known: Vec<_> = Self::names().collect();
                Err(Error {
                    place: String::new(),
                    reason: format!(
                        "no profile {name:?}, want a file that ends in .toml, or one of {}",
                        known.join(", ")
                    ),
                })
            }
        }
    }

    /// Reads a profile from text; `name` is that of the file.
    ///
    /// # Errors
    ///
    /// It makes no sense, or does not say where a value comes from.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let source = Text { name, text };
        let file: File = source.read()?;
        let mut values = Vec::new();
        let mut phases = Vec::new();
        if file.phases.get_ref().is_empty() {
            let reason = "no phases, want at least one [[phase]] with cpu_us, copy_us or kernel_us";
            return Err(source.error(file.phases.span(), reason));
        }
        for (number, one) in file.phases.get_ref().iter().enumerate() {
            let written = Spanned::new(one.span(), one.get_ref().phase());
            phases.push(phase(&source, &written)?);
            for given in origins(&source, one)? {
                values.push(Value {
                    name: format!("phase {number}: {}", given.key),
                    value: text.get(given.at).unwrap_or_default().to_owned(),
                    from: given.from.to_owned(),
                });
            }
        }
        Ok(Self {
            name: file.application.into_inner(),
            what: file.what,
            command: file.command,
            phases,
            values,
        })
    }

    /// How long an iteration takes alone, on average, if nothing waits for anything else.
    pub fn alone_us(&self) -> f64 {
        let phase = |phase: &Phase| {
            let mean = |span: Option<Span>| span.map_or(0.0, |span| span.mean() / 1e3);
            let (cpu, kernel) = (mean(Some(phase.cpu)), mean(phase.kernel));
            let once = if phase.depth > 1 {
                cpu.max(kernel)
            } else {
                cpu + kernel
            };
            // CAST: a count below 2^53.
            phase.repeat as f64 * (once + mean(phase.copy))
        };
        self.phases.iter().map(phase).sum()
    }
}

impl Described {
    /// The phase without what is said about it.
    fn phase(&self) -> file::Phase {
        let span = |span: &Option<Spanned<Span>>| span.as_ref().map(|span| *span.get_ref());
        file::Phase {
            cpu_us: span(&self.cpu_us),
            copy_us: span(&self.copy_us),
            kernel_us: span(&self.kernel_us),
            launch: self
                .launch
                .as_ref()
                .map_or_else(Default::default, |launch| *launch.get_ref()),
            depth: self.depth.clone(),
            repeat: self.repeat.clone().unwrap_or(Spanned::new(0..0, 1)),
        }
    }

    /// The keys that are given, and where their values are.
    fn values(&self) -> impl Iterator<Item = (&'static str, Range<usize>)> {
        let all = [
            ("cpu_us", self.cpu_us.as_ref().map(Spanned::span)),
            ("copy_us", self.copy_us.as_ref().map(Spanned::span)),
            ("kernel_us", self.kernel_us.as_ref().map(Spanned::span)),
            ("launch", self.launch.as_ref().map(Spanned::span)),
            ("depth", self.depth.as_ref().map(Spanned::span)),
            ("repeat", self.repeat.as_ref().map(Spanned::span)),
        ];
        all.into_iter()
            .filter_map(|(key, at)| at.map(|at| (key, at)))
    }
}

/// A value that is given, and where it comes from.
struct Sourced<'a> {
    key: &'static str,
    at: Range<usize>,
    from: &'a str,
}

/// The values of a phase.
fn origins<'a>(source: &Text, phase: &'a Spanned<Described>) -> Result<Vec<Sourced<'a>>, Error> {
    let one = phase.get_ref();
    let kinds: Vec<_> = KINDS.iter().map(|(kind, _)| *kind).collect();
    let kinds = kinds.join(", ");
    for (key, from) in &one.from {
        if !one.values().any(|(given, _)| given == key.get_ref()) {
            let reason = format!(
                "origin of {:?}, which the phase does not give",
                key.get_ref()
            );
            return Err(source.error(key.span(), reason));
        }
        let first = from.get_ref().split([':', ' ', ',']).next();
        if !KINDS.iter().any(|(kind, _)| Some(*kind) == first) {
            let given = from.get_ref();
            let reason = format!("origin {given:?}, want one that begins with one of {kinds}");
            return Err(source.error(from.span(), reason));
        }
    }
    let mut all = Vec::new();
    for (key, at) in one.values() {
        let Some((_, from)) = one.from.iter().find(|(name, _)| name.get_ref() == key) else {
            let reason = format!(
                "{key} does not say where it comes from: want {key} = \"...\" in [phase.from], \
                 beginning with one of {kinds}"
            );
            return Err(source.error(at, reason));
        };
        all.push(Sourced {
            key,
            at,
            from: from.get_ref(),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "application = \"x\"\nwhat = \"y\"\ncommand = \"z\"\n[[phase]]\n\
        cpu_us = { uniform = [1, 3] }\nkernel_us = 10\nrepeat = 5\n[phase.from]\n\
        cpu_us = \"assumed\"\nkernel_us = \"derived: 2 * 5\"\nrepeat = \"code, main.c\"\n";

    #[test]
    fn profiles_that_come_with_the_program_make_sense() {
        for name in Profile::names() {
            let profile = Profile::find(name, Path::new("")).unwrap();
            assert_eq!(profile.name, name);
            assert!(
                profile.phases.iter().any(|phase| phase.kernel.is_some()),
                "{name}"
            );
            assert!(!profile.command.is_empty(), "{name}");
            assert!(!profile.values.is_empty(), "{name}");
            // Some iterations fit into seconds, as in the paper.
            assert!(
                (100.0..3e6).contains(&profile.alone_us()),
                "{name}: {}",
                profile.alone_us()
            );
        }
    }

    #[test]
    fn profile_is_read_as_it_is_written() {
        let profile = Profile::parse("x.toml", GOOD).unwrap();
        assert!((profile.alone_us() - 5.0 * 12.0).abs() < 1e-9);
        let value = |name: &str, value: &str, from: &str| Value {
            name: format!("phase 0: {name}"),
            value: value.to_owned(),
            from: from.to_owned(),
        };
        let expected = [
            value("cpu_us", "{ uniform = [1, 3] }", "assumed"),
            value("kernel_us", "10", "derived: 2 * 5"),
            value("repeat", "5", "code, main.c"),
        ];
        assert_eq!(profile.values, expected);
    }

    #[test]
    fn profile_that_makes_no_sense_is_refused_with_line_and_what_is_allowed() {
        for (old, new, place, reason) in [
            (
                "repeat = \"code, main.c\"\n",
                "",
                "7:10",
                "repeat does not say where",
            ),
            (
                "\"assumed\"",
                "\"guessed\"",
                "9:10",
                "one of paper, code, derived",
            ),
            (
                "\"assumed\"",
                "\"assumedly\"",
                "9:10",
                "one of paper, code, derived",
            ),
            ("repeat = 5\n", "", "10:1", "which the phase does not give"),
            (
                "kernel_us = 10\n",
                "kernel_us = -1\n",
                "6:13",
                "negative time -1",
            ),
            ("repeat = 5", "repaet = 5", "7:1", "unknown field `repaet`"),
            (
                "repeat = 5",
                "repeat = 0",
                "7:10",
                "out of range, want 1 to",
            ),
            ("command = \"z\"\n", "", "1:1", "missing field `command`"),
        ] {
            let error = Profile::parse("x.toml", &GOOD.replacen(old, new, 1)).unwrap_err();
            assert_eq!(error.place, format!("x.toml:{place}"), "{new}: {error}");
            assert!(error.reason.contains(reason), "{new}: {error}");
        }
    }
}
