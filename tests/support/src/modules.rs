// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Loading and removing kernel modules.

use nix::errno::Errno;
use nix::kmod::{delete_module, finit_module, DeleteModuleFlags, ModuleInitFlags};
use std::ffi::CString;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The module under test.
pub const LOGA: &str = "loga";
/// The GPU model and driver stand-in.
pub const MODEL: &str = "loga_model";

/// TIMEOUT: a module in use is tried again this often, for half a minute: on a debug kernel two thousand
/// killed processes close their files that late.
const REMOVE_TRIES: u32 = 1500;
/// Pause between two tries.
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// Parameters of LoGA before those of a test; see [`set_defaults`].
static DEFAULTS: Mutex<String> = Mutex::new(String::new());

/// From now on LoGA is loaded with these parameters before those that a test gives: of a parameter
/// that is given twice, the second counts.
pub fn set_defaults(parameters: &str) {
    let mut defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    parameters.clone_into(&mut defaults);
}

/// Whether a module is loaded.
pub fn is_loaded(name: &str) -> bool {
    Path::new("/sys/module").join(name).exists()
}

/// Loads `/lib/loga/NAME.ko` with parameters; the kernel's answer on failure.
pub fn load(name: &str, parameters: &str) -> Result<(), Errno> {
    let path = format!("/lib/loga/{name}.ko");
    let file = File::open(&path)
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(Errno::ENOENT as i32)))?;
    let defaults = match name {
        LOGA => DEFAULTS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone(),
        _ => String::new(),
    };
    let parameters = format!("{defaults} {parameters}");
    let parameters = CString::new(parameters).map_err(|_| Errno::EINVAL)?;
    finit_module(&file, &parameters, ModuleInitFlags::empty())
}

/// Removes a module once; the kernel's answer on failure.
pub fn remove(name: &str) -> Result<(), Errno> {
    let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
    delete_module(&name, DeleteModuleFlags::O_NONBLOCK)
}

/// Removes a module, waiting while it is in use.
pub fn remove_patiently(name: &str) -> Result<(), String> {
    let mut last = Errno::UnknownErrno;
    for _ in 0..REMOVE_TRIES {
        match remove(name) {
            Ok(()) | Err(Errno::ENOENT) => return Ok(()),
            Err(errno) => last = errno,
        }
        std::thread::sleep(REMOVE_PAUSE);
    }
    Err(format!("rmmod {name}: {last}"))
}

/// Writes a parameter at run time.
pub fn set(name: &str, parameter: &str, value: &str) -> Result<(), Errno> {
    let path = format!("/sys/module/{name}/parameters/{parameter}");
    fs::write(path, value).map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}
