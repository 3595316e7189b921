// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Events of the kernel: a driver appears, a GPU is unbound from its driver or bound again,
//! the machine goes to sleep, a processor is online again.

use super::hook;
use crate::glue::gpu::device::absence::{self, Away};
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The registered notifiers, while this lives.
pub(crate) struct Notices(());

impl Notices {
    /// Registers them. Called once, after [`crate::glue::prepare`].
    ///
    /// # Errors
    ///
    /// Those of the kernel's registration functions; `ENOMEM`.
    pub(crate) fn begin() -> Result<Self> {
        // SAFETY: Called once, at load; `drop` takes it back.
        to_result(unsafe { ffi::loga_notices_begin() })?;
        Ok(Self(()))
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        // SAFETY: Registered by `begin`.
        unsafe { ffi::loga_notices_end() };
    }
}

/// Calls `act` for each GPU that LoGA follows.
fn each_gpu(act: impl Fn(&Arc<Gpu>)) {
    if let Some(tracker) = hook::followed() {
        tracker.gpus().for_each(act);
    }
}

#[no_mangle]
extern "C" fn loga_is_waiting() -> bool {
    hook::is_waiting()
}

/// A GPU was bound to its driver, or a driver's module was loaded.
#[no_mangle]
extern "C" fn loga_driver_appeared() {
    hook::attach_or_retake();
}

/// A GPU is about to be unbound from its driver, which is still there. No register is read after
/// the return.
#[no_mangle]
extern "C" fn loga_device_goes(device: *mut bindings::pci_dev) {
    each_gpu(|gpu| {
        if gpu.device.bar0.is_of(device) && gpu.go_away(Away::Unbound) {
            pr_info!(
                "{}: taken from its driver; LoGA does not follow it until it is back\n",
                gpu.device.address
            );
        }
    });
}

/// The machine goes to sleep, or has woken up.
#[no_mangle]
extern "C" fn loga_machine_sleeps(sleeps: bool) {
    absence::note_sleep(sleeps);
    each_gpu(|gpu| {
        if sleeps {
            gpu.go_away(Away::Asleep);
        } else {
            gpu.come_back(Away::Asleep);
        }
    });
}

/// A processor is online again.
#[no_mangle]
extern "C" fn loga_cpu_came(cpu: c_uint) {
    if let Some(tracker) = hook::followed() {
        tracker.cpu_came(cpu);
    }
}
