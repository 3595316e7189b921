// SPDX-License-Identifier: GPL-2.0

//! Register reads and writes.

use super::channel::{Fetch, Status};
use super::chip::ChipIdentity;
use super::{regs, Bus, Channel, Chid, Context, Gpu, ENGINES, ENGINE_INDEX, GR};
use crate::rm::submit;
use core::ops::DerefMut;

/// Registers that only keep what was written, or collect events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) identity: ChipIdentity,
    pmc_enable: u32,
    userd_base: u32,
    intr: u32,
    intr_en: u32,
    runlist_intr: u32,
    sched_disable: u32,
    runlist_base: u32,
    preempt: u32,
    bind_error: u32,
    pbdma_intr: [u32; ENGINES],
    pbdma_intr_en: [u32; ENGINES],
    fecs_arb: u32,
    now: u64,
}

impl Stored {
    /// Values after reset.
    pub(super) const fn new() -> Self {
        Self {
            identity: ChipIdentity::GK110B,
            pmc_enable: 0,
            userd_base: 0,
            intr: 0,
            intr_en: 0,
            runlist_intr: 0,
            sched_disable: 0,
            runlist_base: 0,
            preempt: 0,
            bind_error: 0,
            pbdma_intr: [0; ENGINES],
            pbdma_intr_en: [0; ENGINES],
            fecs_arb: 0,
            now: 0,
        }
    }

    /// Whether the driver stopped a runlist.
    pub(super) fn sched_disabled(&self, runlist: usize) -> bool {
        self.sched_disable & (1 << runlist) != 0
    }
}

/// Position of a word in an array of `count` words at `first`, if it is one of them.
fn index_of(offset: u32, first: u32, count: usize) -> Option<usize> {
    let distance = offset.checked_sub(first)?;
    // CAST: u32 fits usize on every supported target.
    let index = (distance / 4) as usize;
    (distance % 4 == 0 && index < count).then_some(index)
}

impl<S: DerefMut<Target = [Channel]>> Gpu<S> {
    /// Reads the register at byte offset `offset` of BAR0; registers not modelled read zero.
    pub fn mmio_read(&self, offset: u32) -> u32 {
        let stored = &self.stored;
        match offset {
            regs::PMC_BOOT_0 => stored.identity.boot_0,
            regs::PMC_BOOT_42 => stored.identity.boot_42,
            regs::CHANNEL_COUNT => stored.identity.channels,
            regs::PMC_ENABLE => stored.pmc_enable,
            regs::PMC_PBDMA_ENABLE => (1 << ENGINES) - 1,
            regs::PFIFO_INTR => stored.intr,
            regs::PFIFO_INTR_EN => stored.intr_en,
            regs::USERD_BASE => stored.userd_base,
            regs::SCHED_DISABLE => stored.sched_disable,
            regs::PREEMPT => self.preempt_word(),
            regs::RUNLIST_BASE => stored.runlist_base,
            regs::BIND_ERROR => stored.bind_error,
            regs::RUNLIST_INTR => stored.runlist_intr,
            // CAST: halves of a 64-bit value.
            regs::PTIMER_TIME_0 => stored.now as u32 & !0x1f,
            regs::PTIMER_TIME_1 => (stored.now >> 32) as u32 & 0x1fff_ffff,
            regs::PGRAPH_STATUS | regs::GR_ENGINE_STATUS => {
                u32::from(self.engines[GR].deadline().is_some())
            }
            regs::FECS_LOADING if self.engines[GR].loading() => regs::FECS_LOADING_BIT,
            regs::FECS_ARB_CTX_PTR => stored.fecs_arb,
            regs::FECS_CURRENT_CTX => self.current_context(),
            regs::FECS_NEW_CTX if self.engines[GR].loading() => self.current_context(),
            _ => self.read_array(offset),
        }
    }

    /// Writes the register at byte offset `offset` of BAR0; read-only ones ignore it.
    ///
    /// The owner calls [`Gpu::advance`] afterwards, so that the GPU acts on it.
    pub fn mmio_write<B: Bus>(&mut self, offset: u32, value: u32, bus: &mut B) {
        let stored = &mut self.stored;
        match offset {
            regs::PMC_ENABLE => stored.pmc_enable = value,
            regs::PFIFO_INTR => stored.intr &= !value,
            regs::PFIFO_INTR_EN => stored.intr_en = value,
            regs::USERD_BASE => stored.userd_base = value,
            regs::SCHED_DISABLE => stored.sched_disable = value,
            regs::RUNLIST_BASE => stored.runlist_base = value,
            regs::RUNLIST_INTR => stored.runlist_intr &= !value,
            regs::PREEMPT => {
                stored.preempt = value & !regs::PREEMPT_PENDING;
                // CAST: masked to 12 bits.
                let id = (value & 0xfff) as u16;
                let tsg = value & regs::PREEMPT_TYPE_TSG != 0;
                self.preempt(if tsg {
                    Context::Tsg(id)
                } else {
                    Context::Channel(id)
                });
            }
            regs::RUNLIST_SUBMIT => return self.submit(value, bus),
            regs::PMC_PBDMA_ENABLE | regs::RUNLIST_FAULT | regs::PFIFO_INIT => {}
            _ => return self.write_array(offset, value, bus),
        }
        bus.publish(offset, self.mmio_read(offset));
    }

    /// Offset in BAR1 of a channel's USERD slot, while the base is valid.
    pub fn userd(&self, chid: Chid) -> Option<u64> {
        let base = self.stored.userd_base;
        let page = u64::from(base & 0x0fff_ffff) << 12;
        (base & regs::USERD_BASE_VALID != 0)
            .then_some(page + u64::from(chid.0) * submit::USERD_SLOT)
    }

    /// Sets interrupt bits.
    pub(super) fn raise<B: Bus>(&mut self, bits: u32, bus: &mut B) {
        self.stored.intr |= bits;
        bus.publish(regs::PFIFO_INTR, self.stored.intr);
    }

    /// Reports that the PBDMA of a runlist stopped on a bad command.
    pub(super) fn raise_pbdma<B: Bus>(&mut self, engine: usize, bus: &mut B) {
        self.stored.pbdma_intr[engine] |= regs::PBDMA_INTR_METHOD;
        // CAST: an index below ENGINES.
        let block = regs::PBDMA + regs::PBDMA_STRIDE * engine as u32;
        bus.publish(block + regs::PBDMA_INTR, self.stored.pbdma_intr[engine]);
        self.raise(regs::INTR_PBDMA, bus);
    }

    /// Keeps and shows the time.
    pub(super) fn publish_time<B: Bus>(&mut self, now: u64, bus: &mut B) {
        self.stored.now = now;
        bus.publish(regs::PTIMER_TIME_0, self.mmio_read(regs::PTIMER_TIME_0));
        bus.publish(regs::PTIMER_TIME_1, self.mmio_read(regs::PTIMER_TIME_1));
        bus.publish(regs::PREEMPT, self.preempt_word());
    }

    /// Keeps and shows the words of the context switch microcontroller.
    ///
    /// The arbiter's pointer has no valid bit and goes stale, as with nouveau's firmware
    /// (`gr/fuc/hub.fuc`); the current context is cleared when nothing is resident.
    pub(super) fn publish_fecs<B: Bus>(&mut self, bus: &mut B) {
        let current = self.current_context();
        if current != 0 {
            self.stored.fecs_arb = current & regs::CHANNEL_INST;
        }
        for offset in [
            regs::FECS_LOADING,
            regs::FECS_ARB_CTX_PTR,
            regs::FECS_CURRENT_CTX,
            regs::FECS_NEW_CTX,
            regs::GR_ENGINE_STATUS,
            regs::PGRAPH_STATUS,
        ] {
            bus.publish(offset, self.mmio_read(offset));
        }
    }

    /// Shows a channel's table entry if its second word changed.
    pub(super) fn publish_channel<B: Bus>(&mut self, chid: Chid, bus: &mut B) {
        if let Some(channel) = self.channels.get_mut(usize::from(chid.0)) {
            let word = channel.state_word();
            if word != channel.published {
                channel.published = word;
                bus.publish(regs::CHANNEL + 8 * u32::from(chid.0) + 4, word);
            }
        }
    }

    /// Shows every register, after reset or when they were lost.
    pub fn publish_all<B: Bus>(&mut self, bus: &mut B) {
        let single = [
            regs::PMC_BOOT_0,
            regs::PMC_BOOT_42,
            regs::CHANNEL_COUNT,
            regs::PMC_ENABLE,
            regs::PMC_PBDMA_ENABLE,
            regs::PFIFO_INTR,
            regs::PFIFO_INTR_EN,
            regs::USERD_BASE,
            regs::SCHED_DISABLE,
            regs::RUNLIST_BASE,
            regs::BIND_ERROR,
            regs::RUNLIST_INTR,
        ];
        for offset in single {
            bus.publish(offset, self.mmio_read(offset));
        }
        for index in 0..regs::DEVICE_INFO_WORDS {
            let offset = regs::DEVICE_INFO + 4 * index;
            bus.publish(offset, self.mmio_read(offset));
        }
        for (engine, &hardware) in ENGINE_INDEX.iter().enumerate() {
            // CAST: an index below ENGINES.
            let index = engine as u32;
            let status = regs::ENGINE_STATUS + 8 * u32::from(hardware);
            for offset in [
                status,
                status + 4,
                regs::PBDMA_MAP + 4 * index,
                regs::PBDMA_STATUS + 4 * index,
            ] {
                bus.publish(offset, self.mmio_read(offset));
            }
        }
        // CAST: at most 4096 channels.
        for chid in 0..self.channels.len() as u32 {
            let offset = regs::CHANNEL + 8 * chid;
            bus.publish(offset, self.mmio_read(offset));
            bus.publish(offset + 4, self.mmio_read(offset + 4));
        }
        self.publish_fecs(bus);
    }

    fn read_array(&self, offset: u32) -> u32 {
        if let Some(index) = index_of(offset, regs::DEVICE_INFO, regs::DEVICE_INFO_WORDS as usize) {
            return regs::DEVICE_INFO_TABLE.get(index).copied().unwrap_or(0);
        }
        for (engine, &hardware) in ENGINE_INDEX.iter().enumerate() {
            // CAST: an index below ENGINES.
            let index = engine as u32;
            let status = regs::ENGINE_STATUS + 8 * u32::from(hardware);
            let pbdma = regs::PBDMA + regs::PBDMA_STRIDE * index;
            let readback = regs::RUNLIST_READBACK + 8 * index;
            let runlist = &self.runlists[engine];
            match offset {
                o if o == status => return self.engines[engine].status_word(),
                o if o == status + 4 => return 1,
                o if o == regs::PBDMA_STATUS + 4 * index => {
                    return self.engines[engine].status_word()
                }
                o if o == regs::PBDMA_MAP + 4 * index => return 1 << engine,
                o if o == pbdma + regs::PBDMA_INTR => return self.stored.pbdma_intr[engine],
                o if o == pbdma + regs::PBDMA_INTR_EN => return self.stored.pbdma_intr_en[engine],
                o if o == readback => return runlist.base,
                // A submit is taken over at once, so its pending bit is never seen.
                o if o == readback + 4 => {
                    return ((index << 20) & !regs::RUNLIST_PENDING) | runlist.count
                }
                _ => {}
            }
        }
        let Some(word) = index_of(offset, regs::CHANNEL, 2 * self.channels.len()) else {
            return 0;
        };
        match self.channels.get(word / 2) {
            Some(channel) if word % 2 == 0 => channel.inst,
            Some(channel) => channel.state_word(),
            None => 0,
        }
    }

    fn write_array<B: Bus>(&mut self, offset: u32, value: u32, bus: &mut B) {
        for engine in 0..ENGINES {
            // CAST: an index below ENGINES.
            let pbdma = regs::PBDMA + regs::PBDMA_STRIDE * engine as u32;
            if offset == pbdma + regs::PBDMA_INTR {
                self.stored.pbdma_intr[engine] &= !value;
            } else if offset == pbdma + regs::PBDMA_INTR_EN {
                self.stored.pbdma_intr_en[engine] = value;
            } else {
                continue;
            }
            bus.publish(offset, self.mmio_read(offset));
        }
        let Some(word) = index_of(offset, regs::CHANNEL, 2 * self.channels.len()) else {
            return;
        };
        // CAST: below the table's length, at most 4096.
        let chid = Chid((word / 2) as u16);
        if word % 2 == 0 {
            self.bind(chid, value, bus);
        } else {
            self.control(chid, value, bus);
        }
        bus.publish(offset, self.mmio_read(offset));
    }

    /// First word of a table entry: binds or unbinds an instance block.
    fn bind<B: Bus>(&mut self, chid: Chid, value: u32, bus: &mut B) {
        let on_engine = self.on_engine(chid);
        let snoop = self.stored.userd_base & regs::USERD_BASE_VALID != 0;
        let Some(channel) = self.channels.get_mut(usize::from(chid.0)) else {
            return;
        };
        let binding = value & regs::CHANNEL_BIND != 0;
        if channel.bound() && !binding && on_engine {
            return self.bind_error(regs::BIND_UNBIND_WHILE_RUNNING, bus);
        }
        if channel.bound() && binding {
            return self.bind_error(regs::BIND_NOT_UNBOUND, bus);
        }
        if binding && !snoop {
            return self.bind_error(regs::BIND_SNOOP_WITHOUT_BAR1, bus);
        }
        channel.inst = value & (regs::CHANNEL_BIND | regs::CHANNEL_INST);
        channel.fetch = Fetch::NEW;
        channel.status = Status::Idle;
        channel.faulted = false;
        channel.gp_entries = 0;
        channel.gp_get = 0;
        if !binding {
            channel.enabled = false;
            return;
        }
        let block = u64::from(value & 0x0fff_ffff) << 12;
        let low = bus.vidmem_read(block + regs::RAMFC_GP_BASE);
        let high = bus.vidmem_read(block + regs::RAMFC_GP_BASE_HI);
        if let (Some(low), Some(high)) = (low, high) {
            channel.gp_base = u64::from(low) | (u64::from(high & 0xff) << 32);
            channel.gp_entries = 1 << ((high >> 16) & 0x1f).min(15);
        }
    }

    /// Second word of a table entry: enable, disable, runlist, fault reset.
    fn control<B: Bus>(&mut self, chid: Chid, value: u32, bus: &mut B) {
        let Some(channel) = self.channels.get_mut(usize::from(chid.0)) else {
            return;
        };
        // CAST: masked to 4 bits.
        let runlist = ((value >> regs::CHANNEL_RUNLIST_SHIFT) & 0xf) as u8;
        if value & regs::CHANNEL_PBDMA_FAULTED != 0 {
            channel.faulted = false;
        }
        if value & regs::CHANNEL_ENABLE_SET != 0 {
            channel.enabled = true;
        }
        if value & regs::CHANNEL_ENABLE_CLR != 0 {
            channel.enabled = false;
            if channel.status != Status::OnPbdmaAndEngine {
                channel.status = Status::Idle;
            }
        }
        channel.next_bit = value & regs::CHANNEL_NEXT != 0;
        if usize::from(runlist) >= ENGINES {
            return self.bind_error(regs::BIND_INVALID_RUNLIST, bus);
        }
        if !channel.listed {
            channel.runlist = runlist;
        }
        channel.published = channel.state_word();
    }

    fn bind_error<B: Bus>(&mut self, code: u32, bus: &mut B) {
        self.stored.bind_error = code;
        bus.publish(regs::BIND_ERROR, code);
        self.raise(regs::INTR_BIND_ERROR, bus);
    }

    fn submit<B: Bus>(&mut self, value: u32, bus: &mut B) {
        // CAST: masked to 4 bits.
        let runlist = ((value >> 20) & 0xf) as usize;
        if runlist >= ENGINES {
            return self.raise(regs::INTR_SCHED_ERROR, bus);
        }
        let base = self.stored.runlist_base;
        if !self.load_runlist(runlist, base, value & 0xffff, bus) {
            self.raise(regs::INTR_SCHED_ERROR, bus);
        }
        self.end_slice(runlist);
        self.stored.runlist_intr |= 1 << runlist;
        bus.publish(regs::RUNLIST_INTR, self.stored.runlist_intr);
        // CAST: an index below ENGINES.
        let readback = regs::RUNLIST_READBACK + 8 * runlist as u32;
        bus.publish(readback, self.mmio_read(readback));
        bus.publish(readback + 4, self.mmio_read(readback + 4));
        self.raise(regs::INTR_RUNLIST, bus);
    }

    fn preempt_word(&self) -> u32 {
        let pending = self.engines.iter().any(|engine| engine.preempting());
        self.stored.preempt | if pending { regs::PREEMPT_PENDING } else { 0 }
    }

    /// FECS_CURRENT_CTX: the instance block of the context in GR, with its valid bit.
    fn current_context(&self) -> u32 {
        let chid = self.engines[GR].pointed_at();
        match chid.and_then(|chid| self.channel(chid)) {
            Some(channel) => (channel.inst & regs::CHANNEL_INST) | regs::FECS_CTX_VALID,
            None => 0,
        }
    }
}
