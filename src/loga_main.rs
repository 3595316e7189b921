// SPDX-License-Identifier: GPL-2.0

//! `[glue]` LoGA as a kernel module: the same sources as `lib.rs`, and `glue`.

pub mod account;
pub mod candidate;
pub mod claims;
#[cfg(loga_kunit)]
mod claims_tests;
pub mod compatibility;
pub mod engaged;
pub mod engine;
pub mod error;
pub mod fair;
pub mod gpu;
pub mod ids;
pub mod knobs;
pub mod names;
#[path = "../policies/mod.rs"]
pub mod policies;
pub mod quota;
pub mod random;
#[path = "../regs/mod.rs"]
pub mod regs;
pub mod request;
pub mod rm;
pub mod share;
pub mod storage;
pub mod track;
pub mod uapi;
pub mod units;

mod glue;

use kernel::bindings;
use kernel::prelude::*;

module! {
    type: Loga,
    name: "loga",
    authors: ["The LoGA developers"],
    description: "Accounts for and fairly shares the compute time of NVIDIA GPUs",
    license: "GPL v2",
}

/// The loaded module: its registrations. Dropping it also detaches.
#[pin_data(PinnedDrop)]
struct Loga {
    notices: glue::Notices,
    #[pin]
    costs: glue::Costs,
    control: glue::ControlDevice,
    /// Dropped last: no page is left then.
    revocations: glue::Revocations,
}

impl kernel::InPlaceModule for Loga {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            revocations: glue::Revocations::begin()?,
            _: {
                glue::prepare()?;
            },
            notices: glue::Notices::begin()?,
            costs <- glue::Costs::new(),
            // The last step that can fail, since users can open the device at once. An open file
            // holds the module, but a module that fails to initialise is freed all the same.
            control: glue::ControlDevice::register()?,
            _: {
                glue::attach_on_load();
            },
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Loga {
    fn drop(self: Pin<&mut Self>) {
        glue::detach_for_good();
    }
}

/// This module, for taking references on it.
pub(crate) fn this_module() -> *mut bindings::module {
    &raw mut bindings::__this_module
}
