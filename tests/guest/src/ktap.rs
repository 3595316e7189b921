// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Runs tests and reports in KTAP.

use crate::kernel_log::KernelLog;
use crate::limits;
use loga_ktap::Outcome;
use std::panic::{catch_unwind, AssertUnwindSafe, UnwindSafe};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use throttle::clock::{Clock, Monotonic};

/// Which suites KUnit runs when a module is loaded.
const KUNIT_FILTER: &str = "/sys/module/kunit/parameters/filter_glob";

/// How a test ended: nothing to say, or why it failed.
pub(crate) type Verdict = Result<(), String>;

/// One test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) run: fn() -> Verdict,
    /// Whether its verdict compares times or shares: on a kernel that is several times slower than
    /// the everyday one it says nothing about LoGA.
    pub(crate) timed: bool,
    /// Whether it takes long and finds little that others do not: `make test-all` runs it, `make test`
    /// does not; docs/testing.md says why of each.
    pub(crate) slow: bool,
}

/// Fails the test with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err(format!($($message)+));
        }
    };
}
pub(crate) use ensure;

/// Makes the table of a file's tests, `TESTS` unless `const NAME;` names it, from the names of their
/// functions; `name: timed` for tests that compare times or shares, `slow` for those that only
/// `make test-all` runs, `timed slow` for both.
macro_rules! tests {
    ($($name:ident $(: $($mark:ident)+)?),* $(,)?) => {
        $crate::ktap::tests![const TESTS; $($name $(: $($mark)+)?),*];
    };
    (const $table:ident; $($name:ident $(: $($mark:ident)+)?),* $(,)?) => {
        /// Tests of this file.
        pub(crate) const $table: &[$crate::ktap::Test] = &[
            $($crate::ktap::Test {
                name: stringify!($name),
                run: $name,
                timed: $crate::ktap::marked!(timed; $($($mark)+)?),
                slow: $crate::ktap::marked!(slow; $($($mark)+)?),
            }),*
        ];
    };
}
pub(crate) use tests;

/// Whether a mark is there; any other than the two does not compile.
macro_rules! marked {
    ($wanted:ident;) => {
        false
    };
    (timed; timed $($more:ident)*) => {
        true
    };
    (slow; slow $($more:ident)*) => {
        true
    };
    (timed; slow $($more:ident)*) => {
        $crate::ktap::marked!(timed; $($more)*)
    };
    (slow; timed $($more:ident)*) => {
        $crate::ktap::marked!(slow; $($more)*)
    };
}
pub(crate) use marked;

/// Whether verdicts of timed tests count.
static FUNCTIONAL: AtomicBool = AtomicBool::new(false);

/// From now on timed tests run without their verdict, and go on where a figure is beyond its limits:
/// only what the kernel says of them counts.
pub(crate) fn set_functional(functional: bool) {
    FUNCTIONAL.store(functional, Ordering::Relaxed);
}

/// One of several parts of the tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// From 0.
    number: usize,
    of: usize,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Part {
                number: number - 1,
                of,
            }),
            _ => Err("not a part such as 1/2".to_owned()),
        }
    }
}

/// Which tests a caller names.
#[derive(Debug, clap::Args)]
pub(crate) struct Names {
    /// Names, or beginnings of names, of tests.
    names: Vec<String>,
    /// Names are whole.
    #[arg(long)]
    exact: bool,
    /// Only tests that compare times or shares.
    #[arg(long)]
    timed: bool,
    /// Slow tests too; those that are named run without it.
    #[arg(long)]
    all: bool,
}

impl Names {
    /// The same, and the slow tests.
    pub(crate) fn with_slow(self) -> Self {
        Self { all: true, ..self }
    }

    /// Whether a test is among them; without any name each is.
    fn has(&self, test: &Test) -> bool {
        let is_named = |name: &String| match self.exact {
            true => test.name == *name,
            false => test.name.starts_with(name),
        };
        let chosen = match self.names.is_empty() {
            true => self.all || !test.slow,
            false => self.names.iter().any(is_named),
        };
        chosen && (test.timed || !self.timed)
    }
}

/// One part of the tests that are named.
pub(crate) fn choose(tests: &[Test], names: &Names, part: Part) -> Vec<Test> {
    tests
        .iter()
        .filter(|test| names.has(test))
        .skip(part.number)
        .step_by(part.of)
        .copied()
        .collect()
}

/// Runs the tests that [`choose`] gives; `true` if all passed.
pub(crate) fn run(tests: &[Test], names: &Names, part: Part) -> bool {
    run_chosen(&choose(tests, names, part))
}

/// Runs tests in their order; `true` if all passed.
pub(crate) fn run_chosen(chosen: &[Test]) -> bool {
    // Each load of a module would run its unit tests again, which another run reports.
    // Without KUnit there is nothing to switch off.
    let _ = std::fs::write(KUNIT_FILTER, "none");
    print!("{}", loga_ktap::begin(chosen.len()));
    if chosen.is_empty() {
        eprintln!("loga-guest: no test has such a name");
        return false;
    }
    let mut passed = true;
    for (number, test) in (1..).zip(chosen) {
        let since_ns = Monotonic.now_ns();
        let verdict = judge(test);
        let took_ms = Monotonic.now_ns().saturating_sub(since_ns) / 1_000_000;
        passed &= report(number, test.name, verdict);
        println!("# {} took {took_ms} ms", test.name);
    }
    passed
}

/// Runs something that takes arguments as the only test; `true` if it passed.
pub(crate) fn one(name: &str, run: impl FnOnce() -> Verdict) -> bool {
    let _ = std::fs::write(KUNIT_FILTER, "none");
    print!("{}", loga_ktap::begin(1));
    report(1, name, judged(AssertUnwindSafe(run), false))
}

/// Prints how a test ended; `false` if it failed.
fn report(number: usize, name: &str, verdict: Result<(), Failure>) -> bool {
    let (outcome, note, reason) = match verdict {
        Ok(()) => (Outcome::Pass, String::new(), String::new()),
        Err(Failure::Unjudged(reason)) => (
            Outcome::Skip,
            "times are not judged here".to_owned(),
            reason,
        ),
        Err(Failure::Failed(reason)) => {
            let first = reason.lines().next().unwrap_or("failed").to_owned();
            (Outcome::Fail, first, reason)
        }
    };
    let failed = outcome == Outcome::Fail;
    let test = loga_ktap::Test {
        name: name.to_owned(),
        outcome,
        note,
    };
    print!(
        "{}{}",
        loga_ktap::diagnostics(&reason),
        loga_ktap::result(number, &test)
    );
    !failed
}

/// Why a test did not pass.
enum Failure {
    /// It counts.
    Failed(String),
    /// A timed test found times that it would refuse on the everyday kernel.
    Unjudged(String),
}

/// Runs one test; a panic or a complaint of the kernel is a failure.
fn judge(test: &Test) -> Result<(), Failure> {
    judged(test.run, test.timed)
}

fn judged(run: impl FnOnce() -> Verdict + UnwindSafe, timed: bool) -> Result<(), Failure> {
    let mut log = KernelLog::from_now().map_err(Failure::Failed)?;
    let unjudged = timed && FUNCTIONAL.load(Ordering::Relaxed);
    if unjudged {
        limits::note_only();
    }
    let verdict = catch_unwind(run);
    let mut noted = limits::noted();
    let verdict = match verdict {
        Ok(verdict) if unjudged => {
            noted.extend(verdict.err());
            match noted.is_empty() {
                true => Ok(()),
                false => Err(Failure::Unjudged(noted.join("\n"))),
            }
        }
        Ok(verdict) => verdict.map_err(Failure::Failed),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
            Err(Failure::Failed(format!(
                "panicked: {}",
                text.unwrap_or_default()
            )))
        }
    };
    let trouble = log.trouble().map_err(Failure::Failed)?;
    match (verdict, trouble) {
        (verdict, None) => verdict,
        (Ok(()), Some(line)) => Err(Failure::Failed(format!("kernel: {line}"))),
        (Err(Failure::Failed(reason) | Failure::Unjudged(reason)), Some(line)) => {
            Err(Failure::Failed(format!("{reason}\nkernel: {line}")))
        }
    }
}
