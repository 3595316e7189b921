// SPDX-License-Identifier: GPL-2.0

//! [tool] How long a test measures.

use std::time::Duration;

/// The second time over the first.
const LONGER: u32 = 4;

/// Measures for `time` and checks, both by `attempt`. A share of a short time varies with the
/// instants at which its loads began. So if the check fails, `attempt` is made once more, for four
/// times as long and with the same bounds, and that decides.
///
/// # Errors
///
/// That of the second attempt.
pub(crate) fn over<T>(
    time: Duration,
    mut attempt: impl FnMut(Duration) -> Result<T, String>,
) -> Result<T, String> {
    attempt(time).or_else(|error| {
        let longer = time * LONGER;
        println!("# in {time:?}: {error}; once more, for {longer:?}");
        attempt(longer)
    })
}
