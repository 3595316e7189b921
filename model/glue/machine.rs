// SPDX-License-Identifier: GPL-2.0

//! The card in motion: the state machine, the memory around it, and the timer that drives it.
//!
//! One lock, taken with interrupts off, covers the state machine and everything it reaches. The
//! timer is pinned to CPU 0; a change of registers has CPU 0 advance the GPU at once. Both run in
//! hard interrupt context, so the lock is a raw one; the listeners for completions are woken
//! afterwards, from an interrupt work, which PREEMPT_RT runs in a thread.

use super::board::{Apertures, Board, Owner};
pub use super::clock::now;
use super::compat::{new_listeners_lock, ListenersLock};
use super::params::Params;
use super::raw_lock::{new_raw_spinlock, RawSpinLock};
use super::space::{Listeners, Space, SPACES};
use crate::gpu::channel::Channel;
use crate::gpu::{regs, Chid, Gpu};
use crate::rm::submit;
use crate::truth::{Account, Entry, Truth};
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;
use kernel::{bindings, pr_warn_once};

/// Calls of the state machine in one tick for what became due during the tick.
const CATCH_UPS: u32 = 8;
/// The nearest time for which the timer is armed, in ns. One nearer expires before it is armed, and
/// the kernel takes three of those in a row for a hang and stops all timers for a while.
const NEAREST_NS: u64 = 1_500;
/// Scans of an idle GPU's recently active channels between two scans of all channels.
const SHORT_SCANS: u32 = 7;
/// First byte of the instance blocks in video memory; below lie the runlists.
const INSTANCES: u64 = 0x100_0000;
/// Bytes of an instance block. Source: GK20A `hw_ram_gk20a.h`.
const INSTANCE_SIZE: u64 = 0x1000;
/// Bytes of a runlist in video memory.
const RUNLIST_SIZE: u64 = 0x10000;

#[allow(improper_ctypes)]
extern "C" {
    fn loga_model_timer_setup(timer: *mut bindings::hrtimer);
}

/// The state behind the lock.
pub struct Core {
    pub(super) gpu: Gpu<KVVec<Channel>>,
    pub(super) board: Board,
    /// Channels that the driver has stopped, until their last command ends.
    leaving: KVVec<u16>,
    /// Short scans since the last full one.
    short_scans: u32,
}

/// The card.
#[pin_data]
pub struct Machine {
    #[pin]
    core: RawSpinLock<Core>,
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    /// The listeners for completions, by address space. Never taken with `core` held.
    #[pin]
    pub(super) listeners: ListenersLock<KVVec<Listeners>>,
    #[pin]
    pub(super) notices: Opaque<bindings::irq_work>,
    /// Parameters at load.
    pub params: Params,
    /// Where its apertures lie.
    pub at: Apertures,
}

// SAFETY: The timer and the interrupt work are only touched by the kernel's functions for them, on
// CPU 0 or after the module stopped using them; the rest is `Sync` by itself.
unsafe impl Sync for Machine {}
// SAFETY: As above; the object is pinned and may be dropped on any thread.
unsafe impl Send for Machine {}

/// Says so if timers only expire on ticks, which makes commands far too long.
pub fn warn_if_coarse() {
    // SAFETY: A variable of the kernel that is written while the clock is set up.
    let resolution = unsafe { core::ptr::addr_of!(bindings::hrtimer_resolution).read_volatile() };
    if resolution > 1 {
        pr_warn!("timers have a resolution of {resolution} ns; wait for hres_active\n");
    }
}

impl Machine {
    /// Powers the card on: registers have their reset values, USERD is in place.
    pub fn new(params: Params, at: Apertures) -> Result<Pin<KBox<Self>>> {
        let channels = regs::CHANNELS as usize;
        let mut board = Board::new(&params, at, now())?;
        let table = KVVec::from_elem(Channel::NEW, channels, GFP_KERNEL)?;
        let mut gpu = Gpu::new(params.timing, table);
        gpu.identify(params.identity);
        gpu.publish_all(&mut board);
        // CAST: an offset in BAR1, below 2^40.
        let base = regs::USERD_BASE_VALID | (at.userd >> 12) as u32;
        gpu.mmio_write(regs::USERD_BASE, base, &mut board);
        let core = Core {
            gpu,
            board,
            leaving: KVVec::with_capacity(channels, GFP_KERNEL)?,
            short_scans: 0,
        };
        let mut listeners = KVVec::with_capacity(SPACES, GFP_KERNEL)?;
        for _ in 0..SPACES {
            listeners.push(Listeners::NONE, GFP_KERNEL)?;
        }
        KBox::pin_init(
            pin_init!(Self {
                core <- new_raw_spinlock!(core, "loga_model_core"),
                listeners <- new_listeners_lock!(listeners, "loga_model_listeners"),
                notices: Opaque::new(bindings::irq_work {
                    func: Some(deliver),
                    ..Default::default()
                }),
                timer <- Opaque::ffi_init(|timer| {
                    // SAFETY: `timer` points to the memory of this object's timer, which is pinned
                    // and lives until `stop` has cancelled it.
                    unsafe { loga_model_timer_setup(timer) }
                }),
                params,
                at,
            }),
            GFP_KERNEL,
        )
    }

    /// Stops the timer for good. May sleep.
    pub fn stop(&self) {
        // SAFETY: Both were set up in `new`; nothing starts the timer any more once no file is
        // open, and nothing but the timer queues the work then.
        unsafe {
            bindings::hrtimer_cancel(self.timer.get());
            bindings::irq_work_sync(self.notices.get());
        }
    }

    /// Lets the GPU act on what changed. May sleep.
    pub fn kick(&self) {
        // SAFETY: `kicked` may run in interrupt context; the call waits for it, so that the
        // machine outlives it.
        let error = unsafe {
            bindings::smp_call_function_single(
                0,
                Some(kicked),
                core::ptr::from_ref(self).cast_mut().cast(),
                // A boolean from Linux 7.3 on.
                true.into(),
            )
        };
        if error != 0 {
            pr_warn_once!("CPU 0 is not there; the GPU runs on whichever CPU submits\n");
            self.tick(true);
        }
    }

    /// Advances the GPU and arms the timer for its next event.
    ///
    /// While the GPU is idle most calls scan only the recently active channels: a full scan costs
    /// several microseconds of CPU 0 for fifty channels.
    fn tick(&self, thorough: bool) {
        let mut core = self.core.lock();
        let Core {
            gpu,
            board,
            leaving,
            short_scans,
        } = &mut *core;
        let doorbell = self.params.timing.doorbell_ns;
        if !thorough && gpu.idle() && *short_scans < SHORT_SCANS {
            *short_scans += 1;
            if !gpu.has_recent_work(now(), board) {
                return self.arm(now().saturating_add(doorbell));
            }
        }
        *short_scans = 0;
        let mut next = gpu.advance(now(), board);
        for _ in 0..CATCH_UPS {
            match next {
                // The next scan of an idle GPU is not a missed event.
                Some(due) if due <= now() && !gpu.idle() => next = gpu.advance(now(), board),
                _ => break,
            }
        }
        unbind_idle(gpu, board, leaving);
        match next {
            // The pause counts from the end of the scan, so that CPU 0 has time for other work.
            Some(next) if gpu.idle() => self.arm(next.max(now().saturating_add(doorbell))),
            Some(next) => self.arm(next.max(now().saturating_add(NEAREST_NS))),
            None => {}
        }
        // Waking a process takes microseconds, for which a card does not wait.
        if board.has_completed() {
            // SAFETY: The work was set up in `new`, and the machine outlives it.
            unsafe { bindings::irq_work_queue(self.notices.get()) };
        }
    }

    /// Arms the timer; called with the lock held.
    fn arm(&self, at: u64) {
        // CAST: nanoseconds since boot stay below 2^63.
        let at = at.min(i64::MAX as u64) as i64;
        // SAFETY: The timer was set up in `new`. The lock is held, so that the timer is not
        // started twice at a time.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.timer.get(),
                at,
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_ABS_PINNED_HARD,
            )
        };
    }

    /// Runs `f` with the lock held and interrupts off.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        f(&mut self.core.lock())
    }

    /// Puts an address space into a free slot; gives it back if there is none.
    pub fn add_space(&self, space: KBox<Space>) -> Result<usize> {
        let mut space = Some(space);
        let slot = self.with(|core| {
            let slot = core.board.spaces.iter().position(|slot| slot.is_none())?;
            core.board.spaces[slot] = space.take();
            Some(slot)
        });
        slot.ok_or(ENOSPC)
    }

    /// Takes an address space away; the caller drops it.
    pub fn take_space(&self, slot: usize) -> Option<KBox<Space>> {
        self.with(|core| {
            for owner in core.board.owners.iter_mut() {
                if owner.space == Some(slot) {
                    owner.space = None;
                }
            }
            core.board.spaces.get_mut(slot)?.take()
        })
    }

    /// Changes an address space; `f` must not drop a memory object.
    pub fn with_space<R>(&self, slot: usize, f: impl FnOnce(&mut Space) -> R) -> Option<R> {
        self.with(|core| {
            core.board
                .spaces
                .get_mut(slot)?
                .as_mut()
                .map(|space| f(space))
        })
    }

    /// What a driver does to start a channel: RAMFC, USERD, bind, runlist, enable.
    pub fn bind_channel(&self, chid: Chid, setup: &ChannelSetup) {
        self.with(|core| {
            let Core { gpu, board, .. } = core;
            let index = usize::from(chid.0);
            board.owners[index] = Owner {
                pid: setup.pid,
                space: Some(setup.space),
            };
            board.truth.channel_created(setup.pid);
            let slot = u64::from(chid.0) * submit::USERD_SLOT;
            board.userd.write(slot + submit::USERD_GP_GET, 0);
            board.userd.write(slot + submit::USERD_GP_PUT, 0);
            let block = INSTANCES + u64::from(chid.0) * INSTANCE_SIZE;
            // CAST: halves of the address.
            board
                .vidmem
                .write(block + regs::RAMFC_GP_BASE, setup.gp_base as u32);
            // Not `ilog2`: objtool does not know its panic to be one with old compilers (1.85).
            let entries_log2 = setup.gp_entries.checked_ilog2().unwrap_or(0);
            let high = ((setup.gp_base >> 32) as u32 & 0xff) | (entries_log2 << 16);
            board.vidmem.write(block + regs::RAMFC_GP_BASE_HI, high);
            let entry = regs::CHANNEL + 8 * u32::from(chid.0);
            let runlist = setup.runlist << regs::CHANNEL_RUNLIST_SHIFT;
            gpu.mmio_write(entry, regs::CHANNEL_BIND | (block >> 12) as u32, board);
            gpu.mmio_write(entry + 4, runlist, board);
            gpu.mmio_write(entry + 4, runlist | regs::CHANNEL_ENABLE_SET, board);
        });
    }

    /// Enables or disables a channel.
    pub fn enable_channel(&self, chid: Chid, runlist: u32, enable: bool) {
        let bit = if enable {
            regs::CHANNEL_ENABLE_SET
        } else {
            regs::CHANNEL_ENABLE_CLR
        };
        let entry = regs::CHANNEL + 8 * u32::from(chid.0) + 4;
        let word = bit | (runlist << regs::CHANNEL_RUNLIST_SHIFT);
        self.with(|core| core.gpu.mmio_write(entry, word, &mut core.board));
    }

    /// What a driver does to stop a channel, of a TSG or of none: disable, forget its memory, preempt.
    /// A running command goes on to its end; then the channel is unbound.
    pub fn abandon_channel(&self, chid: Chid, runlist: u32, tsg: Option<u16>) {
        self.enable_channel(chid, runlist, false);
        self.with(|core| {
            let owner = &mut core.board.owners[usize::from(chid.0)];
            owner.space = None;
            core.board.truth.channel_destroyed(owner.pid);
            let preempt = match tsg {
                Some(tsg) => u32::from(tsg) | regs::PREEMPT_TYPE_TSG,
                None => u32::from(chid.0),
            };
            core.gpu.mmio_write(regs::PREEMPT, preempt, &mut core.board);
            // There is room for all channels.
            let _ = core.leaving.push_within_capacity(chid.0);
        });
    }

    /// Whether an abandoned channel has left its engine, and was unbound.
    pub fn has_left(&self, chid: Chid) -> bool {
        self.with(|core| !core.leaving.contains(&chid.0))
    }

    /// Submits a runlist: the first words of its entries.
    pub fn submit_runlist(&self, runlist: u32, entries: &[u32]) {
        self.with(|core| {
            let base = u64::from(runlist) * RUNLIST_SIZE;
            for (index, &entry) in entries.iter().enumerate() {
                let at = base + 8 * index as u64;
                core.board.vidmem.write(at, entry);
                core.board.vidmem.write(at + 4, 0);
            }
            // CAST: below the size of video memory; at most 4096 channels and as many TSGs.
            core.gpu
                .mmio_write(regs::RUNLIST_BASE, (base >> 12) as u32, &mut core.board);
            let word = (runlist << 20) | entries.len() as u32;
            core.gpu
                .mmio_write(regs::RUNLIST_SUBMIT, word, &mut core.board);
            core.gpu
                .mmio_write(regs::PFIFO_INTR, regs::INTR_RUNLIST, &mut core.board);
        });
    }

    /// Lets PMC_BOOT_0 name another chip; nothing else changes.
    pub fn set_chip(&self, boot0: u32) {
        self.with(|core| {
            core.board.bar0.write(regs::PMC_BOOT_0.into(), boot0);
            let channels = regs::CHANNELS;
            core.board.bar0.write(regs::CHANNEL_COUNT.into(), channels);
        });
    }

    /// Runs `f` on the ground truth.
    pub fn with_truth<R>(
        &self,
        f: impl FnOnce(&mut Truth<KVVec<Option<Entry>>, KVVec<Account>>) -> R,
    ) -> R {
        self.with(|core| f(&mut core.board.truth))
    }
}

/// Unbinds the channels that are leaving and are on no engine any more, as a driver does that waits
/// for them.
fn unbind_idle(gpu: &mut Gpu<KVVec<Channel>>, board: &mut Board, leaving: &mut KVVec<u16>) {
    leaving.retain(|&mut chid| {
        let stays = gpu.on_engine(Chid(chid));
        if !stays {
            gpu.mmio_write(regs::CHANNEL + 8 * u32::from(chid), 0, board);
        }
        stays
    });
}

/// What [`Machine::bind_channel`] needs.
pub struct ChannelSetup {
    /// Owning process.
    pub pid: i32,
    /// Address space slot.
    pub space: usize,
    /// GPU address of the GPFIFO.
    pub gp_base: u64,
    /// Its entries, a power of two.
    pub gp_entries: u32,
    /// Runlist.
    pub runlist: u32,
}

/// The timer has expired: called by `shim.c` on CPU 0 in hard interrupt context.
#[no_mangle]
unsafe extern "C" fn loga_model_expired(timer: *mut bindings::hrtimer) {
    // SAFETY: Only `Machine::new` sets up such a timer, inside a machine that lives until `stop` has
    // waited for it; `Opaque` has the layout of its contents.
    let machine = unsafe {
        &*timer
            .byte_sub(core::mem::offset_of!(Machine, timer))
            .cast::<Machine>()
    };
    machine.tick(false);
}

/// Runs on CPU 0 on behalf of [`Machine::kick`].
unsafe extern "C" fn kicked(machine: *mut c_void) {
    // SAFETY: `kick` passes itself and waits for this function.
    unsafe { &*machine.cast::<Machine>() }.tick(true);
}

/// Runs after the timer's callback, outside of the card's lock.
unsafe extern "C" fn deliver(work: *mut bindings::irq_work) {
    // SAFETY: As in `loga_model_expired`, for the work of the same machine.
    let machine = unsafe {
        &*work
            .byte_sub(core::mem::offset_of!(Machine, notices))
            .cast::<Machine>()
    };
    machine.notify_listeners();
}
