// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the first file of an archive says.

use crate::{Error, ARCHIVE_BYTES_MAX, FILES_MAX, FILE_BYTES_MAX, VERSION};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::{self, Display, Formatter};

/// Name of the manifest in the archive.
pub const NAME: &str = "manifest.json";

/// What became of a step.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase", deny_unknown_fields)]
pub enum Outcome {
    /// It was carried out.
    Done {
        /// The figures of most worth, in one line.
        found: String,
    },
    /// Somebody refused it.
    Refused {
        /// Who: the kernel, the driver, a library, a limit.
        by: String,
        /// What the answer was.
        answer: String,
    },
    /// It was not tried.
    Untried {
        /// What it would need.
        needs: String,
    },
}

impl Outcome {
    /// Refused by somebody with an answer.
    pub fn refused(by: impl Into<String>, answer: impl Display) -> Self {
        Outcome::Refused {
            by: by.into(),
            answer: answer.to_string(),
        }
    }

    /// With spaces for control characters: the words are often those of other programs.
    pub(crate) fn printable(self) -> Self {
        let plain = |text: String| text.replace(char::is_control, " ");
        match self {
            Outcome::Done { found } => Outcome::Done {
                found: plain(found),
            },
            Outcome::Refused { by, answer } => Outcome::Refused {
                by: plain(by),
                answer: plain(answer),
            },
            Outcome::Untried { needs } => Outcome::Untried {
                needs: plain(needs),
            },
        }
    }

    /// Not tried for want of something.
    pub fn untried(needs: impl Into<String>) -> Self {
        Outcome::Untried {
            needs: needs.into(),
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done { found } => write!(f, "done: {found}"),
            Outcome::Refused { by, answer } => write!(f, "refused by {by}: {answer}"),
            Outcome::Untried { needs } => write!(f, "not tried: needs {needs}"),
        }
    }
}

/// One step, whether or not it was carried out.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StepRecord {
    /// Its name; also the folder of its files.
    pub name: String,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// How long it might have taken, in seconds.
    pub limit_seconds: f64,
}

/// One file of the archive.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Its name: STEP/FILE.
    pub name: String,
    /// Its length, in bytes.
    pub bytes: u64,
}

/// The bounds that the archive was written under.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Of the archive, in bytes.
    pub archive_bytes: u64,
    /// Of each file, in bytes.
    pub file_bytes: u64,
    /// Files beside the manifest.
    pub files: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            archive_bytes: ARCHIVE_BYTES_MAX,
            file_bytes: FILE_BYTES_MAX,
            files: FILES_MAX,
        }
    }
}

/// What was asked, what answered, and which files there are.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`VERSION`] of the layout.
    pub version: u32,
    /// The program that wrote it, with its version.
    pub program: String,
    /// The commit that the program was built at.
    pub commit: String,
    /// The minutes that all steps together were given.
    pub minutes: f64,
    /// The bounds that it was written under.
    pub bounds: Bounds,
    /// The steps in the order in which they were tried.
    pub steps: Vec<StepRecord>,
    /// The files that follow.
    pub files: Vec<FileRecord>,
    /// Files that were not kept, with the reason.
    pub left_out: Vec<String>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// [`Error::Version`] of another version; [`Error::Manifest`] if it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let refuse = |error: serde_json::Error| Error::Manifest(error.to_string());
        let value: Value = serde_json::from_slice(bytes).map_err(refuse)?;
        let Some(version) = value.get("version").and_then(Value::as_u64) else {
            return Err(Error::Manifest("has no version".to_owned()));
        };
        if version != u64::from(VERSION) {
            return Err(Error::Version(version));
        }
        if has_control(&value) {
            return Err(Error::Manifest("has control characters".to_owned()));
        }
        serde_json::from_value(value).map_err(refuse)
    }
}

/// Whether a text in it would do something to the terminal that it is printed on. JSON lets a text have
/// any character. Its depth is bounded by the parser.
fn has_control(value: &Value) -> bool {
    let is_bad = |text: &str| text.contains(char::is_control);
    match value {
        Value::String(text) => is_bad(text),
        Value::Array(all) => all.iter().any(has_control),
        Value::Object(all) => all
            .iter()
            .any(|(name, one)| is_bad(name) || has_control(one)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
