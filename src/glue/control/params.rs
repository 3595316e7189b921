// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Module parameters, and their check: a wrong one becomes an errno and a line in the log.

use super::modinfo::Parameters;
use crate::glue::kernel::ffi::{self, MAX_GPUS};
use crate::glue::kernel::print::Line;
use crate::glue::kernel::text::Text;
use crate::knobs::{Config, KNOBS};
use crate::names::Kind;
use kernel::bindings;
use kernel::fmt::Write;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{Atomic, Relaxed};

/// Numbers of the knobs, as the module loader gave them.
static GIVEN: [Atomic<u32>; KNOBS.len()] = [const { Atomic::new(NOT_GIVEN) }; KNOBS.len()];

/// No knob has this number.
const NOT_GIVEN: u32 = u32::MAX;
/// The text given is no value of the knob: [`set`] has logged it, and [`read`] refuses it. If `set`
/// refused it, the kernel would log a second line.
const WRONG: u32 = u32::MAX - 1;

static OPERATIONS: bindings::kernel_param_ops = bindings::kernel_param_ops {
    flags: bindings::KERNEL_PARAM_OPS_FL_NOARG,
    set: Some(set),
    get: Some(get),
    free: None,
};

#[link_section = "__param"]
#[used(compiler)]
static PARAMETERS: Parameters = Parameters::new(&raw mut bindings::__this_module, &OPERATIONS);

/// Stores the value of a knob, when the module is loaded. A switch without one is on.
unsafe extern "C" fn set(value: *const c_char, param: *const bindings::kernel_param) -> c_int {
    // SAFETY: The kernel gives one of `PARAMETERS`, whose argument is a position.
    let at = unsafe { (*param).__bindgen_anon_1.arg }.addr();
    let Some((knob, given)) = KNOBS.get(at).zip(GIVEN.get(at)) else {
        return EINVAL.to_errno();
    };
    let value = match (value.is_null(), knob.kind) {
        (true, Kind::Switch) => c"1",
        (true, _) => c"",
        // SAFETY: Not null: the kernel gives a string.
        (false, _) => unsafe { CStr::from_char_ptr(value) },
    };
    let value = value.to_str().unwrap_or("(not UTF-8)");
    let number = knob.parse(value).unwrap_or_else(|cause| {
        pr_err!("{}={value}: {}\n", knob.name, Line(&cause));
        WRONG
    });
    given.store(number, Relaxed);
    0
}

/// Writes the value of a knob to a page, as the module was loaded with it.
unsafe extern "C" fn get(page: *mut c_char, param: *const bindings::kernel_param) -> c_int {
    // SAFETY: The kernel gives one of `PARAMETERS`, whose argument is a position.
    let at = unsafe { (*param).__bindgen_anon_1.arg }.addr();
    let Some(knob) = KNOBS.get(at) else {
        return EINVAL.to_errno();
    };
    // SAFETY: The kernel gives a page.
    let mut text = unsafe { Text::page(page) };
    match writeln!(text, "{}", knob.written((knob.get)(&config()))) {
        // CAST: at most a page.
        Ok(()) => text.len() as c_int,
        Err(_) => EIO.to_errno(),
    }
}

/// The knobs as the module was loaded with them.
fn config() -> Config {
    let mut config = Config::default();
    for (knob, given) in KNOBS.iter().zip(&GIVEN) {
        // A knob that was not given has no valid number.
        let _ = knob.set(&mut config, given.load(Relaxed));
    }
    config
}

/// The parameters, checked.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// CPU that the poller of each GPU is bound to; a shared one takes the first.
    pub(crate) poller_cpus: [Option<u32>; MAX_GPUS],
}

/// Reads and checks the parameters. Logs an error in one line.
///
/// # Errors
///
/// `EINVAL`.
pub(crate) fn read() -> Result<Settings> {
    if GIVEN.iter().any(|given| given.load(Relaxed) == WRONG) {
        return Err(EINVAL);
    }
    // SAFETY: Set by the module loader before this module runs, and read-only later.
    let (cpus, cpu_count) = unsafe { (ffi::loga_poller_cpu, ffi::loga_poller_cpus) };
    let settings = Settings {
        config: config(),
        poller_cpus: check_cpus(cpus.get(..cpu_count as usize).unwrap_or(&cpus))?,
    };
    settings.config.check().map_err(|cause| {
        pr_err!("{}\n", Line(&cause));
        EINVAL
    })?;
    Ok(settings)
}

/// The last CPU given applies to all further GPUs.
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
    // SAFETY: Reads a CPU mask.
    if !unsafe { ffi::loga_cpu_online(cpu) } {
        pr_err!("poller_cpu={cpu}: no such CPU is online\n");
        return Err(EINVAL);
    }
    Ok(Some(cpu))
}
