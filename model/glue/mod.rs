// SPDX-License-Identifier: GPL-2.0

//! `[glue]` What runs the model inside a kernel: all `unsafe` of this module is here.
//!
//! | file | contents |
//! |---|---|
//! | [`params`] | module parameters |
//! | [`memory`] | memory shared by programs, GPU and module |
//! | [`pci`] | the PCI device and its apertures |
//! | [`board`] | what the state machine reaches |
//! | [`machine`] | state machine, lock, timer |
//! | [`clock`] | the clock of all cards |
//! | [`stand`] | all cards, and what the resource manager has on them |
//! | [`registers`] | registers outside the state machine |
//! | [`notices`] | completion notices: listeners are woken from an interrupt work |
//! | [`raw_lock`] | a lock that hard interrupts may take |
//! | [`rm`] | the resource manager's clients and objects |
//! | [`channels`] | its hardware channels |
//! | [`space`] | what a client's channels reach, the listeners for completions |
//! | [`ioctl`] | the calls on the nodes |
//! | [`objects`] | the calls about objects |
//! | [`opened`] | open files: what they carry |
//! | [`file`] | the nodes: open, release, poll, registration |
//! | [`mapping`] | mmap and page faults |
//! | [`debugfs`] | the ground truth for people and tests |
//! | [`compat`] | what differs between kernels |

pub mod board;
pub mod channels;
pub mod clock;
pub mod compat;
pub mod debugfs;
pub mod file;
pub mod ioctl;
pub mod machine;
pub mod mapping;
pub mod memory;
pub mod notices;
pub mod objects;
pub mod opened;
pub mod params;
pub mod pci;
pub mod raw_lock;
pub mod registers;
pub mod rm;
pub mod space;
pub mod stand;

pub use memory::PAGE;
pub use stand::{stand, Card, Stand};

use core::sync::atomic::Ordering;
use kernel::prelude::*;
use stand::STAND;

extern "C" {
    fn loga_model_take_turns(on: bool) -> kernel::ffi::c_int;
}

/// Lets the emulator's processors take turns as the parameter `turn_us` says, or as they like.
///
/// # Errors
///
/// `EINVAL` or `ENODEV`: they cannot.
fn take_turns(on: bool) -> Result {
    // SAFETY: `turns.c` defines it; process context, as `init` and `drop` are.
    kernel::error::to_result(unsafe { loga_model_take_turns(on) })
}

/// The module. Fields are dropped by [`LogaModel::drop`] in the order in which users go away.
pub struct LogaModel {
    nodes: Option<file::Nodes>,
    driver: Option<pci::Driver>,
    files: Option<Pin<KBox<debugfs::Files>>>,
    cards: Option<pci::Cards>,
    stand: Option<KBox<Stand>>,
}

impl kernel::Module for LogaModel {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let params = params::Params::read()?;
        pci::check_window(params.gpus)?;
        let stand = KBox::new(Stand::new(params)?, GFP_KERNEL)?;
        STAND.store(core::ptr::from_ref(&*stand).cast_mut(), Ordering::Release);
        // From here on an early return drops `this`, which undoes the steps done.
        let mut this = Self {
            nodes: None,
            driver: None,
            files: None,
            cards: None,
            stand: Some(stand),
        };
        this.cards = Some(pci::Cards::new(params.gpus, params.device)?);
        this.files = Some(KBox::pin_init(debugfs::files(params.gpus), GFP_KERNEL)?);
        if params.nodes {
            this.driver = Some(pci::Driver::new()?);
            this.nodes = Some(file::Nodes::new(module, params.branch)?);
        }
        machine::warn_if_coarse();
        take_turns(true)?;
        pr_info!(
            "{} Kepler model(s) from {:04x}:00:00.0 on, driver branch {:?}\n",
            params.gpus,
            pci::DOMAIN,
            params.branch
        );
        Ok(this)
    }
}

impl Drop for LogaModel {
    fn drop(&mut self) {
        // What was possible at the beginning is now.
        let _ = take_turns(false);
        self.nodes = None;
        self.driver = None;
        self.files = None;
        self.cards = None;
        if let Some(stand) = &self.stand {
            for card in stand.cards.iter() {
                card.machine.stop();
            }
        }
        STAND.store(core::ptr::null_mut(), Ordering::Release);
        self.stand = None;
    }
}
