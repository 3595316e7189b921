// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What can go wrong, as one line and one exit code each.

use loga::rm::class::status;
use std::{fmt, io};

/// One cause of failure.
#[derive(Debug)]
pub enum Error {
    /// A device node cannot be opened.
    Node {
        /// Path of the node.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file cannot be written.
    File {
        /// Path of the file.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A system call on the driver failed.
    Call {
        /// Name of the call.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The driver carried the call out and refused.
    Refused {
        /// Name of the call.
        call: &'static str,
        /// Resource manager status.
        status: u32,
    },
    /// An argument is out of range.
    Argument(String),
    /// The GPU did not finish a command within the limit.
    Hung {
        /// Sequence number of the command.
        sequence: u32,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
    /// A GPU library cannot be loaded, or is none.
    Library {
        /// Name of the library.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// The library has no device of that number.
    NoDevice {
        /// Name of the library.
        name: &'static str,
        /// What there is instead.
        reason: String,
    },
    /// The library refused a call.
    Gpu {
        /// Name of the call.
        call: &'static str,
        /// What it said.
        reason: String,
    },
    /// One of several instances ended badly.
    Instance {
        /// Number of the instance, from 0.
        index: u32,
        /// What it said, or its exit status.
        reason: String,
        /// Its exit code.
        code: u8,
    },
}

impl Error {
    /// Exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Argument(_) => 2,
            Error::Node { .. } => 3,
            Error::Refused { .. } | Error::Gpu { .. } => 4,
            Error::Call { .. } | Error::File { .. } => 5,
            Error::Hung { .. } => 6,
            Error::Library { .. } => 7,
            Error::NoDevice { .. } => 8,
            Error::Instance { code, .. } => *code,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Node { path, source } => {
                write!(f, "cannot open {path}: {source}; is a driver loaded?")
            }
            Error::File { path, source } => write!(f, "cannot write {path}: {source}"),
            Error::Call { call, source } => write!(f, "{call} failed: {source}"),
            Error::Refused { call, status } => write!(
                f,
                "the driver refused {call}: NV status {status:#x} ({})",
                status_name(*status)
            ),
            Error::Library { name, reason } => write!(f, "cannot use {name}: {reason}"),
            Error::NoDevice { name, reason } => write!(f, "{name} has no such GPU: {reason}"),
            Error::Gpu { call, reason } => write!(f, "{call} failed: {reason}"),
            Error::Argument(text) => f.write_str(text),
            Error::Hung { sequence, seconds } => {
                write!(f, "command {sequence} did not complete within {seconds} s")
            }
            Error::Instance { index, reason, .. } => write!(f, "instance {index}: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

/// Name of a resource manager status.
pub fn status_name(value: u32) -> &'static str {
    const NAMES: [(u32, &str); 18] = [
        (status::OK, "OK"),
        (status::INSERT_DUPLICATE_NAME, "INSERT_DUPLICATE_NAME"),
        (status::INSUFFICIENT_RESOURCES, "INSUFFICIENT_RESOURCES"),
        (status::INSUFFICIENT_PERMISSIONS, "INSUFFICIENT_PERMISSIONS"),
        (status::INVALID_ARGUMENT, "INVALID_ARGUMENT"),
        (status::INVALID_CHANNEL, "INVALID_CHANNEL"),
        (status::INVALID_CLASS, "INVALID_CLASS"),
        (status::INVALID_CLIENT, "INVALID_CLIENT"),
        (status::INVALID_COMMAND, "INVALID_COMMAND"),
        (status::INVALID_DEVICE, "INVALID_DEVICE"),
        (status::INVALID_EVENT, "INVALID_EVENT"),
        (status::INVALID_LIMIT, "INVALID_LIMIT"),
        (status::INVALID_OBJECT, "INVALID_OBJECT"),
        (status::INVALID_OBJECT_HANDLE, "INVALID_OBJECT_HANDLE"),
        (status::INVALID_OBJECT_PARENT, "INVALID_OBJECT_PARENT"),
        (status::INVALID_POINTER, "INVALID_POINTER"),
        (status::NO_MEMORY, "NO_MEMORY"),
        (status::STATE_IN_USE, "STATE_IN_USE"),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == value)
        .map_or("unknown", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_call_names_call_and_status() {
        let error = Error::Refused {
            call: "RM_ALLOC",
            status: status::INVALID_CLASS,
        };
        let text = error.to_string();
        assert_eq!(
            text,
            "the driver refused RM_ALLOC: NV status 0x22 (INVALID_CLASS)"
        );
        assert_eq!(error.exit_code(), 4);
    }

    #[test]
    fn status_unlisted_is_unknown() {
        assert_eq!(status_name(0xffff), "unknown");
    }
}
