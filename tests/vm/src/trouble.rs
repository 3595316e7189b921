// SPDX-License-Identifier: GPL-2.0

//! Finding the kernel's own complaints in its messages.
//!
//! A test may exit with status 0 while the kernel under it broke a rule: any
//! line found here makes the run a failure.

use loga_ktap::{signs, strip_stamp};

/// Most complaints that are kept; the first ones matter.
pub(crate) const MAX_LINES: usize = 20;

/// The complaint in one line of console output or of the kernel log. Only
/// lines with the kernel's time stamp count: a program may print what it likes.
pub(crate) fn complaint(line: &str) -> Option<&str> {
    let (is_kernel, body) = strip_stamp(line.trim_end());
    (is_kernel && signs::complains(body)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_need_the_stamp() {
        let line = "[    2.1] BUG: unable to handle page fault for address: 0000000000001000";
        assert!(complaint(line).is_some());
        for line in [
            "[    2.123456] loga: attached",
            "the program says WARNING: nothing",
            "[loga] BUG: not the kernel",
        ] {
            assert_eq!(complaint(line), None);
        }
    }
}
