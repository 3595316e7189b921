// SPDX-License-Identifier: GPL-2.0

//! `[tool]` KTAP, the text in which KUnit and the guest's tests report: the guest writes it, the
//! runner of the virtual machine reads it. Both find the kernel's complaints by the same [`signs`].
//!
//! Source: Documentation/dev-tools/ktap.rst.

mod parse;
pub mod signs;
mod write;

pub use parse::parse;
pub use parse::strip_stamp;
pub use write::begin;
pub use write::diagnostics;
pub use write::result;

/// How one test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// `ok`.
    Pass,
    /// `not ok`, or a complaint of the parser.
    Fail,
    /// `ok .. # SKIP reason`.
    Skip,
}

/// One test, or one fault of the output itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Names from the outermost suite to the test, joined by `/`.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The reason given for a failure or a skip, or the parser's complaint.
    pub note: String,
}

/// The results of one output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of the output.
    pub tests: Vec<Test>,
}

impl Report {
    /// Number of tests with this outcome.
    pub fn count(&self, outcome: &Outcome) -> usize {
        self.tests.iter().filter(|t| t.outcome == *outcome).count()
    }

    /// Adds a failure that is not the verdict of a single test.
    pub fn complain(&mut self, name: &str, note: String) {
        self.tests.push(Test {
            name: name.to_owned(),
            outcome: Outcome::Fail,
            note,
        });
    }
}
