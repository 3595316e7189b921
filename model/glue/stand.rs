// SPDX-License-Identifier: GPL-2.0

//! Everything behind the nodes: the cards, and what the resource manager has on them.

use super::machine::Machine;
use super::{params, pci, rm};
use crate::gpu::regs;
use core::sync::atomic::{AtomicPtr, Ordering};
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Mutex;

/// One card, and what the resource manager has on it.
#[pin_data]
pub struct Card {
    /// The card.
    pub machine: Pin<KBox<Machine>>,
    /// The resource manager's clients, each with its objects on this card.
    #[pin]
    pub rm: Mutex<rm::Rm>,
}

/// Everything behind the nodes.
pub struct Stand {
    /// Parameters at load.
    pub params: params::Params,
    /// In the order of their minors; never empty.
    pub cards: KVec<Pin<KBox<Card>>>,
}

impl Stand {
    /// A stand with cards as the parameters say.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(params: params::Params) -> Result<Self> {
        let mut cards = KVec::with_capacity(params.gpus, GFP_KERNEL)?;
        for gpu in 0..params.gpus {
            let machine = Machine::new(params, pci::apertures(gpu))?;
            if params::is_turing(gpu) {
                machine.set_chip(regs::PMC_BOOT_0_TU104);
            }
            let rm = rm::Rm::new()?;
            let card = KBox::pin_init(
                pin_init!(Card {
                    machine,
                    rm <- new_mutex!(rm, "loga_model_rm"),
                }),
                GFP_KERNEL,
            )?;
            cards.push(card, GFP_KERNEL)?;
        }
        Ok(Self { params, cards })
    }
}

/// The one stand, while the module is loaded.
pub(super) static STAND: AtomicPtr<Stand> = AtomicPtr::new(core::ptr::null_mut());

/// The stand, while the module is loaded.
///
/// Callers are the nodes' operations, the timer, debugfs files and parameters, all of which end
/// before `LogaModel::drop` frees it.
pub fn stand() -> Option<&'static Stand> {
    let stand = STAND.load(Ordering::Acquire);
    // SAFETY: Set by `init` to an object that lives until `drop` has stopped every caller.
    unsafe { stand.as_ref() }
}

/// A card, while the module is loaded.
pub fn machine(gpu: usize) -> Option<&'static Machine> {
    stand()?.cards.get(gpu).map(|card| &*card.machine)
}
