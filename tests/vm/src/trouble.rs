// SPDX-License-Identifier: GPL-2.0

//! Finding the kernel's own complaints in its messages.
//!
//! A test may exit with status 0 while the kernel under it broke a rule: any
//! line found here makes the run a failure.

use crate::ktap::strip_stamp;

/// How the kernel begins a complaint: bugs, oopses, warnings, lock rules, hung
/// tasks and stalls.
const SIGNS: [&str; 14] = [
    "Kernel panic",
    "Oops",
    "BUG:",
    "kernel BUG at",
    "WARNING:",
    "INFO: task",
    "INFO: possible",
    "INFO: trying to register non-static key",
    "INFO: rcu",
    "rcu: INFO:",
    "general protection fault",
    "possible circular locking",
    "inconsistent lock state",
    "suspicious RCU usage",
];

/// Most complaints that are kept; the first ones matter.
pub(crate) const MAX_LINES: usize = 20;

/// The complaint in one line of console output or of the kernel log. Only
/// lines with the kernel's time stamp count: a program may print what it likes.
pub(crate) fn complaint(line: &str) -> Option<&str> {
    let (is_kernel, body) = strip_stamp(line.trim_end());
    (is_kernel && SIGNS.iter().any(|sign| body.contains(sign))).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_complaints_are_found() {
        for line in [
            "[    2.123456] BUG: unable to handle page fault for address: 0000000000001000",
            "[    2.1] Kernel panic - not syncing: Attempted to kill init!",
            "[    2.1] WARNING: CPU: 1 PID: 71 at kernel/rcu/tree.c:1",
            "[    2.1] WARNING: possible circular locking dependency detected",
            "[    2.1] INFO: task loga:12 blocked for more than 120 seconds.",
            "[    2.1] Oops: general protection fault, 0000 [#1]",
        ] {
            assert!(complaint(line).is_some(), "{line}");
        }
    }

    #[test]
    fn ordinary_lines_are_not() {
        for line in [
            "[    2.123456] loga: attached",
            "the program says WARNING: nothing",
            "[loga] BUG: not the kernel",
        ] {
            assert_eq!(complaint(line), None);
        }
    }
}
