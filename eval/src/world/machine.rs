// SPDX-License-Identifier: GPL-2.0

//! One GPU with its surroundings and its clock: what a scheduler can see and do.

use super::board::Board;
use super::cpu::Cpus;
use super::packed::Packed;
use crate::scenario::{Client, Gpu as Card};
use loga::regs::Mmio;
use loga::units::Ns;
use loga_model::gpu::channel::Channel;
use loga_model::gpu::{regs, Chid, Gpu, Timing, CE0, GR};

/// Channels of one client that are used. The others only count.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// The one for kernels, first of all that it allocated.
    pub compute: u16,
    /// The one for copies.
    pub copy: Option<u16>,
    /// How many it allocated.
    pub allocated: u16,
}

impl Channels {
    /// The channel for an engine.
    pub(super) fn on(&self, engine: usize) -> u16 {
        match self.copy {
            Some(copy) if engine == CE0 => copy,
            _ => self.compute,
        }
    }
}

/// What a scheduler asks for; it is done at once, or at the time that is named.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// The client's thread, which is blocked, runs again at this time.
    Wake {
        /// Which client.
        client: usize,
        /// When, in ns.
        at: u64,
    },
    /// A command that the scheduler had taken is submitted to the GPU.
    Launch {
        /// The client.
        client: usize,
        /// On which engine.
        engine: usize,
        /// How long it runs, in ns.
        length: u64,
    },
}

/// Where clients run.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Their GPU.
    pub card: &'a Card,
    /// Slices of the processors that they share.
    pub cpus: &'a [Ns],
    /// Whether a client that is throttled keeps its processor, as one in a virtual machine does
    /// that spins for the end of a call.
    pub throttled_spins: bool,
}

impl<'a> Host<'a> {
    /// A GPU whose clients have a processor each.
    pub const fn of(card: &'a Card) -> Self {
        Self {
            card,
            cpus: &[],
            throttled_spins: false,
        }
    }
}

/// One GPU with its surroundings.
pub struct Machine {
    gpu: Gpu<Vec<Channel>>,
    /// Its engines in place of those of `gpu`, if programs share one context.
    packed: Option<Packed>,
    /// Its surroundings.
    pub board: Board,
    /// The channels of each client.
    pub channels: Vec<Channels>,
    /// The processors that clients share.
    pub cpus: Cpus,
    /// See [`Host::throttled_spins`].
    pub(super) throttled_spins: bool,
    /// When the GPU has to be asked again.
    pub(super) due: Option<u64>,
    /// Whether an idle engine has been given work.
    pub(super) rung: bool,
    /// What the scheduler asked for.
    pub(super) orders: Vec<Order>,
}

/// The registers, as LoGA reads them.
pub struct Registers<'a>(&'a Gpu<Vec<Channel>>);

impl Mmio for Registers<'_> {
    fn read32(&self, offset: u32) -> u32 {
        self.0.mmio_read(offset)
    }
}

impl Machine {
    /// Where clients run, and the clients.
    pub(super) fn new(host: &Host, clients: &[&Client]) -> Self {
        let card = host.card;
        let timing = Timing {
            switch_ns: card.switch.get(),
            timeslice_ns: card.timeslice.get(),
            // Every submission rings: the engine need not search for work.
            doorbell_ns: 0,
            snoop_ns: 0,
        };
        let mut first = 0;
        let mut channels = Vec::new();
        for client in clients {
            channels.push(Channels {
                compute: first,
                copy: client.copies().then_some(first + 1),
                allocated: client.channels,
            });
            first += client.channels;
        }
        let mut board = Board::new(first.into(), clients.len());
        board.packed = card.packed;
        let mut gpu = Gpu::new(timing, vec![Channel::NEW; first.into()]);
        gpu.mmio_write(regs::USERD_BASE, Board::userd_word(), &mut board);
        Self {
            gpu,
            packed: card.packed.then(|| {
                let footprints = clients.iter().map(|client| client.footprint);
                Packed::new(footprints)
            }),
            board,
            channels,
            cpus: Cpus::new(
                host.cpus,
                clients.iter().map(|client| (client.cpu, client.cpu_weight)),
            ),
            throttled_spins: host.throttled_spins,
            due: None,
            rung: false,
            orders: Vec::new(),
        }
    }

    /// The time, in ns.
    pub fn now(&self) -> u64 {
        self.board.now
    }

    /// The registers, as LoGA reads them.
    pub fn registers(&self) -> Registers<'_> {
        Registers(&self.gpu)
    }

    /// The engine that a channel of a client is for.
    pub(super) fn engine(&self, client: usize, chid: u16) -> usize {
        if self.channels[client].copy == Some(chid) {
            CE0
        } else {
            GR
        }
    }

    /// Asks for something.
    pub fn order(&mut self, order: Order) {
        self.orders.push(order);
    }

    /// Creates the channels of a client, as a driver does: bind, enable, new runlist.
    pub(super) fn open(&mut self, client: usize, depth: u32) {
        let channels = self.channels[client];
        let used = [(GR, Some(channels.compute)), (CE0, channels.copy)];
        for (engine, chid) in used {
            let Some(chid) = chid else { continue };
            self.board.open(chid, client, engine, depth);
            if self.packed.is_some() {
                continue;
            }
            let entry = regs::CHANNEL + 8 * u32::from(chid);
            let instance = Board::instance_word(chid);
            self.gpu.mmio_write(entry, instance, &mut self.board);
            // CAST: one of two engines.
            let runlist = (engine as u32) << regs::CHANNEL_RUNLIST_SHIFT;
            let enable = runlist | regs::CHANNEL_ENABLE_SET;
            self.gpu.mmio_write(entry + 4, enable, &mut self.board);
            self.submit_runlist(engine);
        }
    }

    /// Destroys the channels of a client that has no commands left.
    pub(super) fn close(&mut self, client: usize) {
        let channels = self.channels[client];
        let used = [(GR, Some(channels.compute)), (CE0, channels.copy)];
        for (engine, chid) in used {
            let Some(chid) = chid else { continue };
            if self.packed.is_some() {
                self.board.close(chid);
                continue;
            }
            let entry = regs::CHANNEL + 8 * u32::from(chid);
            // CAST: one of two engines.
            let runlist = (engine as u32) << regs::CHANNEL_RUNLIST_SHIFT;
            let disable = runlist | regs::CHANNEL_ENABLE_CLR;
            self.gpu.mmio_write(entry + 4, disable, &mut self.board);
            self.board.close(chid);
            self.submit_runlist(engine);
        }
    }

    fn submit_runlist(&mut self, engine: usize) {
        let base = Board::runlist_word(engine);
        self.gpu
            .mmio_write(regs::RUNLIST_BASE, base, &mut self.board);
        // CAST: one of two engines, at most 4096 channels.
        let submit = ((engine as u32) << 20) | self.board.listed(engine) as u32;
        self.gpu
            .mmio_write(regs::RUNLIST_SUBMIT, submit, &mut self.board);
        self.rung = true;
    }

    /// Submits a command of a client.
    pub(super) fn submit(&mut self, client: usize, engine: usize, length: u64) {
        let chid = self.channels[client].on(engine);
        self.board.submit(chid, length);
        if let Some(packed) = &mut self.packed {
            packed.submit(client, engine, length, self.board.now);
            self.board.compute(packed.computes());
            self.due = packed.due();
            return;
        }
        self.gpu.ring_doorbell(Chid(chid), &mut self.board);
        // A busy engine searches for work when it is done.
        self.rung |= !self.board.busy(engine);
    }

    /// Lets the GPU do what is due.
    pub(super) fn advance(&mut self) {
        self.rung = false;
        if let Some(packed) = &mut self.packed {
            while let Some(ended) = packed.end(self.board.now) {
                let engine = if ended.is_kernel { GR } else { CE0 };
                let chid = self.channels[ended.client].on(engine);
                self.board.end(chid, engine, ended.length);
            }
            self.board.compute(packed.computes());
            self.due = packed.due();
            return;
        }
        self.due = self.gpu.advance(self.board.now, &mut self.board);
    }
}
