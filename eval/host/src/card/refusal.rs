// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Who refused a question, and with which answer.

use loga_card::Outcome;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::io;

/// Words for the statuses of the resource manager that a question of ours may get. Source:
/// open-gpu-kernel-modules 595, `nvstatuscodes.h`.
const STATUSES: [(u32, &str); 24] = [
    (0x05, "no such card"),
    (0x0f, "the GPU is lost"),
    (0x17, "in use"),
    (0x19, "handle already in use"),
    (0x1a, "insufficient resources"),
    (0x1b, "insufficient permissions"),
    (0x1e, "invalid address"),
    (0x1f, "invalid argument"),
    (0x22, "invalid class"),
    (0x23, "invalid client"),
    (0x24, "invalid command"),
    (0x26, "invalid device"),
    (0x2e, "invalid limit"),
    (0x31, "invalid object"),
    (0x33, "invalid object handle"),
    (0x36, "invalid parent"),
    (0x37, "invalid offset"),
    (0x3a, "invalid size of the parameters"),
    (0x40, "invalid state"),
    (0x51, "out of memory"),
    (0x56, "not supported"),
    (0x57, "object not found"),
    (0x63, "state in use"),
    (0x6d, "feature not enabled"),
];

/// Somebody did not answer a question, and said this instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    /// Who: the driver, the kernel, a library; and at which call.
    pub(crate) by: String,
    /// What was said.
    pub(crate) answer: String,
}

impl Refusal {
    /// A refusal by anybody.
    pub(crate) fn new(by: impl Into<String>, answer: impl Into<String>) -> Self {
        Refusal {
            by: by.into(),
            answer: answer.into(),
        }
    }

    /// A system call failed.
    pub(crate) fn kernel(call: &str, error: &io::Error) -> Self {
        // The text of an error ends with its number, which the text says already.
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        Refusal::new(format!("the kernel: {call}"), text)
    }

    /// The driver carried the call out and returned a status.
    pub(crate) fn driver(call: &str, status: u32) -> Self {
        let known = STATUSES.iter().find(|(value, _)| *value == status);
        let words = known.map_or("unknown", |(_, words)| words);
        let answer = format!("status {status:#x} ({words})");
        Refusal::new(format!("the driver: {call}"), answer)
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Outcome::refused(refusal.by, refusal.answer)
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.by, self.answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_of_the_driver_names_call_status_and_words() {
        let refusal = Refusal::driver("RM_ALLOC(NV_EVENT_BUFFER)", 0x1b);
        assert_eq!(refusal.by, "the driver: RM_ALLOC(NV_EVENT_BUFFER)");
        assert_eq!(refusal.answer, "status 0x1b (insufficient permissions)");
        let answer = Refusal::driver("RM_FREE", 0xffff).answer;
        assert_eq!(answer, "status 0xffff (unknown)");
    }

    #[test]
    fn refusal_of_the_kernel_has_its_words_without_the_number() {
        let refusal = Refusal::kernel("mmap of resource0", &io::Error::from_raw_os_error(1));
        let text = refusal.to_string();
        assert_eq!(
            text,
            "the kernel: mmap of resource0: Operation not permitted"
        );
    }
}
