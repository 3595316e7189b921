// SPDX-License-Identifier: GPL-2.0

//! [glue] Module parameters, checked, and where causes become an errno and a line.

use super::ffi;
use crate::engine::Config;
use crate::regs::Source;
use crate::{error, policies, regs};
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::CStr;

/// The parameters, checked.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) engine: Config,
    pub(super) source: Source,
    /// CPU that pollers are bound to.
    pub(super) poller_cpu: Option<u32>,
}

/// Reads and checks the parameters. Says in one line what is wrong.
///
/// # Errors
///
/// `EINVAL`.
pub(super) fn read() -> Result<Settings> {
    // SAFETY: (all) set by the module loader before this module runs, and read-only later.
    let (poll_ms, ratio, randomize, enforce, poll_always, cpu) = unsafe {
        (
            ffi::loga_poll_ms,
            ffi::loga_ratio,
            ffi::loga_randomize,
            ffi::loga_enforce,
            ffi::loga_poll_always,
            ffi::loga_poller_cpu,
        )
    };
    // SAFETY: As above; string parameters are never null.
    let (policy, source) = unsafe { (text(ffi::loga_policy), text(ffi::loga_source)) };
    let settings = Settings {
        engine: Config {
            poll_ms,
            ratio,
            randomize,
            enforce,
            policy: policies::by_name(policy).map_err(|cause| refuse("policy", policy, &cause))?,
            poll_always,
        },
        source: Source::by_name(source).map_err(|cause| refuse("source", source, &cause))?,
        poller_cpu: check_cpu(cpu)?,
    };
    settings.engine.check().map_err(|cause| {
        pr_err!("{}\n", Line(&cause));
        EINVAL
    })?;
    Ok(settings)
}

/// Lets the kernel print what the pure parts can say of themselves.
struct Line<'a, T>(&'a T);

impl<T: core::fmt::Display> fmt::Display for Line<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(self.0, f)
    }
}

fn refuse(name: &str, value: &str, cause: &error::Error) -> Error {
    pr_err!("{name}={value}: {}\n", Line(cause));
    EINVAL
}

/// -1 is no CPU; any other must be online.
fn check_cpu(cpu: c_int) -> Result<Option<u32>> {
    let Ok(cpu) = u32::try_from(cpu) else {
        return Ok(None);
    };
    // SAFETY: Looks at a mask.
    if !unsafe { ffi::loga_cpu_online(cpu) } {
        pr_err!("poller_cpu={cpu}: no such CPU is online\n");
        return Err(EINVAL);
    }
    Ok(Some(cpu))
}

/// # Safety
///
/// `value` must be a valid string that is never changed.
unsafe fn text(value: *const c_char) -> &'static str {
    // SAFETY: The caller's promise.
    unsafe { CStr::from_char_ptr(value) }
        .to_str()
        .unwrap_or("(not UTF-8)")
}

/// The errno for a chip that cannot be used; says so in one line.
pub(super) fn refuse_chip(gpu: usize, cause: &regs::Error) -> Error {
    pr_err!("gpu {gpu}: {}\n", Line(cause));
    match cause {
        regs::Error::DeviceGone => ENODEV,
        _ => EOPNOTSUPP,
    }
}
