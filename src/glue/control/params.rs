// SPDX-License-Identifier: GPL-2.0

//! [glue] Module parameters, checked, and where causes become an errno and a line.

use crate::account::Accounting;
use crate::engine::{Config, Scale, Sight};
use crate::glue::kernel::ffi::{self, MAX_GPUS};
use crate::glue::kernel::print::Line;
use crate::regs::Source;
use crate::{error, policies};
use kernel::prelude::*;
use kernel::str::CStr;

/// Who polls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollerKind {
    /// A thread for each GPU.
    PerGpu,
    /// One thread for all, one GPU at a time.
    Shared,
}

/// The parameters, checked.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) engine: Config,
    pub(crate) source: Source,
    pub(crate) poller: PollerKind,
    /// CPU that the poller of each GPU is bound to; a shared one takes the first.
    pub(crate) poller_cpus: [Option<u32>; MAX_GPUS],
}

/// Reads and checks the parameters. Says in one line what is wrong.
///
/// # Errors
///
/// `EINVAL`.
pub(crate) fn read() -> Result<Settings> {
    // SAFETY: (all) set by the module loader before this module runs, and read-only later.
    let (poll_ms, ratio, randomize, enforce, poll_always, cpus, cpu_count) = unsafe {
        (
            ffi::loga_poll_ms,
            ffi::loga_ratio,
            ffi::loga_randomize,
            ffi::loga_enforce,
            ffi::loga_poll_always,
            ffi::loga_poller_cpu,
            ffi::loga_poller_cpus,
        )
    };
    // SAFETY: As above; string parameters are never null.
    let (policy, source, poller, accounting, scale) = unsafe {
        (
            text(ffi::loga_policy),
            text(ffi::loga_source),
            text(ffi::loga_poller),
            text(ffi::loga_accounting),
            text(ffi::loga_scale),
        )
    };
    let wanted = Accounting::wanted(accounting);
    let wanted = wanted.map_err(|cause| refuse("accounting", accounting, &cause))?;
    let settings = Settings {
        engine: Config {
            poll_ms,
            scale: match scale {
                // Where lengths do not vary, short phases would alias with applications.
                "" if randomize => Scale::Active,
                "" => Scale::Channels,
                name => Scale::by_name(name).map_err(|cause| refuse("scale", scale, &cause))?,
            },
            ratio,
            randomize,
            // Otherwise the engine says which.
            accounting: wanted.unwrap_or_default(),
            accounting_follows: wanted.is_none(),
            enforce,
            policy: policies::by_name(policy).map_err(|cause| refuse("policy", policy, &cause))?,
            sight: Sight::Channels,
            poll_always,
        },
        source: Source::by_name(source).map_err(|cause| refuse("source", source, &cause))?,
        poller: match poller {
            "per-gpu" => PollerKind::PerGpu,
            "shared" => PollerKind::Shared,
            _ => {
                pr_err!("poller={poller}: no such poller; there are per-gpu and shared\n");
                return Err(EINVAL);
            }
        },
        poller_cpus: check_cpus(cpus.get(..cpu_count as usize).unwrap_or(&cpus))?,
    };
    settings.engine.settled().check().map_err(|cause| {
        pr_err!("{}\n", Line(&cause));
        EINVAL
    })?;
    Ok(settings)
}

fn refuse(name: &str, value: &str, cause: &error::Error) -> Error {
    pr_err!("{name}={value}: {}\n", Line(cause));
    EINVAL
}

/// The last CPU given is also that of all further GPUs.
fn check_cpus(given: &[c_int]) -> Result<[Option<u32>; MAX_GPUS]> {
    let mut cpus = [None; MAX_GPUS];
    for (at, cpu) in cpus.iter_mut().enumerate() {
        if let Some(given) = given.get(at).or(given.last()) {
            *cpu = check_cpu(*given)?;
        }
    }
    Ok(cpus)
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
