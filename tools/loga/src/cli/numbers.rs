// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Numbers on the command line: each is refused with the range that it should be of.

use clap::{Arg, Command};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Seconds between two snapshots: below, the reader is what keeps the machine busy.
const INTERVAL: RangeInclusive<f64> = 0.05..=3600.0;

/// Seconds for which something lasts, a day at most; leases are kept in milliseconds.
const SPAN: RangeInclusive<f64> = 0.001..=86_400.0;

/// Seconds of a recording, a year at most.
const RECORDING: RangeInclusive<f64> = 0.1..=31_536_000.0;

/// What a number is, and what it may be.
pub(super) trait Whole:
    FromStr + PartialOrd + Display + Copy + Send + Sync + 'static
{
}

impl<T: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static> Whole for T {}

/// A parser of whole numbers of a range.
pub(super) fn whole<T: Whole>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| within(text, &range, "a whole number")
}

/// The same, of microseconds.
pub(super) fn micros(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| within(text, &range, "whole microseconds")
}

/// The same, of milliseconds.
pub(super) fn millis(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| within(text, &range, "whole milliseconds").map(Duration::from_millis)
}

/// The same, of seconds.
pub(super) fn whole_seconds(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| within(text, &range, "whole seconds")
}

/// The same, of percent.
pub(super) fn percent(
    range: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = within(text, &range, "a number of percent");
        number.map_err(|said| match text.contains('%') {
            true => format!("{said}, without the sign"),
            false => said,
        })
    }
}

/// Seconds between two snapshots.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    within(text, &INTERVAL, "seconds").map(Duration::from_secs_f64)
}

/// Seconds for which something lasts.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    within(text, &SPAN, "seconds").map(Duration::from_secs_f64)
}

/// Seconds for which is recorded.
pub(super) fn recording(text: &str) -> Result<Duration, String> {
    within(text, &RECORDING, "seconds").map(Duration::from_secs_f64)
}

fn within<T: Whole>(text: &str, range: &RangeInclusive<T>, what: &str) -> Result<T, String> {
    // A number that is none (NaN) is in no range.
    let number = text.parse().ok().filter(|number| range.contains(number));
    let said = || format!("want {what} from {} to {}", range.start(), range.end());
    number.ok_or_else(said)
}

/// Lets the options of a command and of those below it take negative numbers, so that these are
/// refused with what would be right and not as options that there are none of.
pub(super) fn with_negative(command: Command) -> Command {
    let value = |arg: &Arg| {
        let takes_values = !arg.is_positional() && arg.get_action().takes_values();
        takes_values && !arg.is_allow_hyphen_values_set()
    };
    let command = command.mut_args(|arg| match value(&arg) {
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    command.mut_subcommands(with_negative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_that_is_none_is_refused_with_the_range() {
        assert_eq!(interval("0.05"), Ok(Duration::from_millis(50)));
        assert_eq!(interval("3600"), Ok(Duration::from_secs(3600)));
        for text in [
            "0", "-1", "1e-9", "NaN", "nan", "inf", "1e9", "soon", "", "1 s",
        ] {
            let said = interval(text).expect_err(text);
            assert_eq!(said, "want seconds from 0.05 to 3600", "{text}");
        }
        assert_eq!(span("86400"), Ok(Duration::from_secs(86_400)));
        let said = span("0").expect_err("none");
        assert_eq!(said, "want seconds from 0.001 to 86400");
    }

    #[test]
    fn whole_numbers_are_refused_with_their_range() {
        let weight = whole(1..=10_000u32);
        assert_eq!(weight("10000"), Ok(10_000));
        for text in ["0", "10001", "-3", "x", "1.5", "", "99999999999999999999"] {
            let said = weight(text).expect_err(text);
            assert_eq!(said, "want a whole number from 1 to 10000");
        }
        let limit = percent(1..=100);
        assert_eq!(limit("20"), Ok(20));
        let said = limit("20%").expect_err("a sign");
        assert_eq!(
            said,
            "want a number of percent from 1 to 100, without the sign"
        );
        let said = limit("0").expect_err("too small");
        assert_eq!(said, "want a number of percent from 1 to 100");
    }
}
