// SPDX-License-Identifier: GPL-2.0

//! [tool] Runs tests and reports in KTAP (Documentation/dev-tools/ktap.rst).

use crate::kernel_log::KernelLog;
use std::panic::catch_unwind;
use std::str::FromStr;
use throttle::clock::Clock;
use throttle::clock::Monotonic;

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

/// Makes the table of a file's tests from the names of their functions.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        /// The tests of this file.
        pub(crate) const TESTS: &[$crate::ktap::Test] = &[
            $($crate::ktap::Test { name: stringify!($name), run: $name }),*
        ];
    };
}
pub(crate) use tests;

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

/// Runs the tests whose names begin with one of `names` (all without any), and of these one part;
/// `true` if all passed.
pub(crate) fn run(tests: &[Test], names: &[String], part: Part) -> bool {
    let chosen: Vec<&Test> = tests
        .iter()
        .filter(|test| names.is_empty() || names.iter().any(|name| test.name.starts_with(name)))
        .skip(part.number)
        .step_by(part.of)
        .collect();
    // Each loading of a module would run its unit tests again; those are somebody else's report.
    // Without KUnit there is nothing to switch off.
    let _ = std::fs::write(KUNIT_FILTER, "none");
    println!("KTAP version 1");
    println!("1..{}", chosen.len());
    if chosen.is_empty() {
        eprintln!("loga-guest: no test has such a name");
        return false;
    }
    let mut passed = true;
    for (number, test) in (1..).zip(&chosen) {
        let since_ns = Monotonic.now_ns();
        let verdict = judge(test);
        let took_ms = Monotonic.now_ns().saturating_sub(since_ns) / 1_000_000;
        match verdict {
            Ok(()) => println!("ok {number} {}", test.name),
            Err(reason) => {
                passed = false;
                for line in reason.lines() {
                    println!("# {line}");
                }
                let first = reason.lines().next().unwrap_or("failed");
                println!("not ok {number} {} # {first}", test.name);
            }
        }
        println!("# {} took {took_ms} ms", test.name);
    }
    passed
}

/// Runs one test; a panic or a complaint of the kernel is a failure.
fn judge(test: &Test) -> Verdict {
    let mut log = KernelLog::from_now()?;
    let verdict = catch_unwind(test.run).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    });
    let trouble = log.trouble()?;
    match (verdict, trouble) {
        (verdict, None) => verdict,
        (Ok(()), Some(line)) => Err(format!("kernel: {line}")),
        (Err(reason), Some(line)) => Err(format!("{reason}\nkernel: {line}")),
    }
}
