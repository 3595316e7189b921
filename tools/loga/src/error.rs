// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Why the kernel module gave no answer, in one line that names what would be right.

use loga::uapi;
use loga::uapi::{Call, Header, Refusal};
use std::{fmt, io};

/// Why there is no answer.
#[derive(Debug)]
pub enum Error {
    /// There is no control device.
    NotLoaded,
    /// The control device cannot be opened: why, and what helps, in one line.
    Open(String),
    /// The kernel and this program were built with different versions of the structures.
    Version {
        /// What this program was built with.
        ours: Header,
        /// What the kernel was built with, if it said so.
        kernel: Option<Header>,
    },
    /// The module is loaded but follows no driver.
    Detached,
    /// There is no GPU of this number.
    NoGpu {
        /// The number.
        gpu: u32,
        /// How many there are, if that is known.
        known: Option<u32>,
    },
    /// The caller may not do this.
    Forbidden(Call),
    /// The kernel module says why not.
    Refused(Refusal),
    /// The call failed for another cause.
    Failed(Call, io::Error),
    /// The kernel reports an absurd number of elements.
    Absurd(u32),
}

/// What a call does, for messages.
fn purpose(call: Call) -> &'static str {
    match call {
        Call::Snapshot => "reading the clients of the GPU",
        Call::SetShare => "setting weights, limits and classes",
        Call::ReadTotals => "reading or resetting the totals of all users and cgroups",
        Call::Configure => "changing policies and knobs",
        Call::Subscribe => "subscribing to events",
        Call::ListShares => "listing what is set",
        Call::SetSpec => "setting priorities, modes and reserves",
        Call::ListSpecs => "listing priorities, modes and reserves",
        Call::Claim => "claiming a GPU",
    }
}

impl Error {
    /// What a failed call means.
    ///
    /// `answer` is the header of the argument after the call, `refusal` its refusal if it has one.
    pub(crate) fn of(
        call: Call,
        error: io::Error,
        gpu: u32,
        answer: Header,
        refusal: Option<Refusal>,
    ) -> Self {
        let ours = call.header();
        if answer != ours {
            let kernel = Some(answer);
            return Error::Version { ours, kernel };
        }
        if let Some(refusal) = refusal.filter(|refusal| refusal.code != uapi::REFUSED_NOT) {
            return Error::Refused(refusal);
        }
        match error.raw_os_error() {
            // The number of the ioctl holds the size: another size is another number.
            Some(libc::EINVAL | libc::ENOTTY) => Error::Version { ours, kernel: None },
            Some(libc::ENODEV) => Error::Detached,
            Some(libc::ENXIO) => Error::NoGpu { gpu, known: None },
            Some(libc::EPERM | libc::EACCES) => Error::Forbidden(call),
            _ => Error::Failed(call, error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = uapi::DEVICE_PATH;
        match self {
            Error::NotLoaded => write!(
                f,
                "{path} does not exist: the kernel module loga is not loaded, load it with modprobe or insmod (in a container: on the host)"
            ),
            Error::Open(why) => f.write_str(why),
            Error::Version { ours, kernel } => {
                let Header { version, size } = ours;
                write!(f, "this program speaks version {version} ({size} bytes) of {path}, the kernel module ")?;
                match kernel {
                    Some(Header { version, size }) => {
                        write!(f, "version {version} ({size} bytes)")
                    }
                    None => f.write_str("another one"),
                }?;
                f.write_str(": use the loga that was built with the module")
            }
            Error::Detached => f.write_str(
                "the kernel module loga is attached to no driver: load the driver, then write 1 to /sys/module/loga/parameters/attach",
            ),
            Error::NoGpu { gpu, known } => match known {
                None => write!(f, "there is no GPU {gpu}"),
                Some(0) => write!(f, "there is no GPU {gpu}: the kernel module found none"),
                Some(1) => write!(f, "there is no GPU {gpu}: want 0, the only one"),
                Some(count) => {
                    write!(f, "there is no GPU {gpu}: want 0 to {}", count.saturating_sub(1))
                }
            },
            Error::Forbidden(call) => write!(
                f,
                "{} is for root of the host (CAP_SYS_ADMIN): use sudo, root in a container is not enough",
                purpose(*call)
            ),
            Error::Refused(refusal) => refusal.fmt(f),
            Error::Failed(call, source) => {
                write!(f, "{} through {path} failed: {source}", purpose(*call))
            }
            Error::Absurd(count) => write!(f, "{path} reports {count} elements of a table"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(errno: i32, answer: Header, refusal: Option<Refusal>) -> String {
        let error = io::Error::from_raw_os_error(errno);
        Error::of(Call::SetShare, error, 3, answer, refusal).to_string()
    }

    #[test]
    fn other_version_names_both_if_known() {
        let ours = Call::SetShare.header();
        let said = text(libc::EINVAL, ours, None);
        assert!(said.contains("version 15 (88 bytes)"), "{said}");
        assert!(
            said.contains("the kernel module another one: use"),
            "{said}"
        );
        let theirs = Header {
            version: 7,
            size: 300,
        };
        let said = text(libc::EINVAL, theirs, None);
        assert!(said.contains("module version 7 (300 bytes): use"), "{said}");
        let said = text(libc::ENOTTY, ours, None);
        assert!(said.contains("another one"), "{said}");
    }

    #[test]
    fn refusal_comes_before_the_errno() {
        let refusal = Refusal {
            code: uapi::REFUSED_ABOVE_GROUP,
            value: 80,
            min: 1,
            max: 50,
            ..Refusal::default()
        };
        let said = text(libc::EINVAL, Call::SetShare.header(), Some(refusal));
        assert_eq!(
            said,
            "limit=80 is above that of a cgroup or user around it, want at most 50"
        );
    }

    #[test]
    fn user_without_privilege_is_told_what_it_may_set() {
        let refusal = |code| Refusal {
            code,
            field: 1,
            value: 300,
            min: 1,
            max: 100,
        };
        let ours = Call::SetShare.header();
        let said = |code| text(libc::EPERM, ours, Some(refusal(code)));
        assert_eq!(
            said(uapi::REFUSED_NOT_LOWER),
            "weight=300 is more than what holds for it, which is for root (CAP_SYS_ADMIN): want at most 100"
        );
        assert_eq!(
            said(uapi::REFUSED_NOT_OWN),
            "this is for root (CAP_SYS_ADMIN): a user may lower its own processes only"
        );
    }

    #[test]
    fn errno_says_what_would_be_right() {
        let ours = Call::SetShare.header();
        let none = Some(Refusal::default());
        assert_eq!(text(libc::ENXIO, ours, none), "there is no GPU 3");
        assert_eq!(
            text(libc::EPERM, ours, none),
            "setting weights, limits and classes is for root of the host (CAP_SYS_ADMIN): use sudo, root in a container is not enough"
        );
        assert!(text(libc::ENODEV, ours, none).contains("attached to no driver"));
        assert!(text(libc::EIO, ours, none).contains("failed: "));
    }

    #[test]
    fn missing_gpu_names_those_there_are() {
        let said = |known| Error::NoGpu { gpu: 3, known }.to_string();
        assert_eq!(said(Some(1)), "there is no GPU 3: want 0, the only one");
        assert_eq!(said(Some(3)), "there is no GPU 3: want 0 to 2");
    }

    #[test]
    fn missing_device_names_the_remedy() {
        assert!(Error::NotLoaded.to_string().contains("is not loaded"));
    }
}
