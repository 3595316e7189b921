// SPDX-License-Identifier: GPL-2.0

//! Command fetch: GPFIFO entries, pushbuffers and host methods, up to the next command.

use super::channel::Fetch;
use super::{regs, Bus, Channel, Chid, Gpu, Notice, GR};
use crate::rm::submit;
use crate::rm::submit::method;
use core::ops::DerefMut;

/// Words and entries handled in one call; a longer stream continues in the next.
const FETCH_MAX: u32 = 512;

/// Why the fetch of a channel stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    /// A command waits for the engine.
    Launch,
    /// There is no more work.
    Drained,
    /// A semaphore does not have the awaited value.
    Blocked,
    /// Something made no sense; the channel is stopped.
    Fault,
    /// The limit of one call is reached.
    More,
}

/// A method with its data word.
#[derive(Clone, Copy)]
struct Method {
    subchannel: u32,
    offset: u32,
    data: u32,
}

/// What one word did.
enum Executed {
    /// Go on with the next.
    Next,
    /// The channel waits.
    Wait,
    /// The word makes no sense.
    Bad,
}

impl<S: DerefMut<Target = [Channel]>> Gpu<S> {
    /// Whether the channel has something to fetch or to execute.
    pub(super) fn has_work<B: Bus>(&mut self, chid: Chid, bus: &mut B) -> bool {
        let Some(slot) = self.userd(chid) else {
            return false;
        };
        let Some(channel) = self.channel(chid) else {
            return false;
        };
        let fetch = &channel.fetch;
        let (get, inside) = (
            channel.gp_get,
            fetch.launch.is_some() || fetch.words != 0 || fetch.acquiring,
        );
        inside || bus.userd_read(slot + submit::USERD_GP_PUT) != get
    }

    /// Executes host methods of a channel until a command, a wait or the end.
    pub(super) fn fetch<B: Bus>(&mut self, chid: Chid, engine: usize, bus: &mut B) -> Fetched {
        let outcome = self.fetch_words(chid, engine, bus);
        if outcome == Fetched::Fault {
            self.fault(chid, engine, bus);
        }
        outcome
    }

    /// Stops a channel with malformed commands.
    pub(super) fn fault<B: Bus>(&mut self, chid: Chid, engine: usize, bus: &mut B) {
        if let Some(channel) = self.channels.get_mut(usize::from(chid.0)) {
            channel.faulted = true;
            channel.fetch = Fetch::NEW;
        }
        self.raise_pbdma(engine, bus);
        bus.notify(Notice::Fault(chid));
    }

    fn fetch_words<B: Bus>(&mut self, chid: Chid, engine: usize, bus: &mut B) -> Fetched {
        for _ in 0..FETCH_MAX {
            let Some(channel) = self.channel(chid) else {
                return Fetched::Fault;
            };
            let fetch = channel.fetch;
            if fetch.launch.is_some() {
                return Fetched::Launch;
            }
            if fetch.acquiring {
                match bus.memory_read(chid, fetch.semaphore) {
                    Some(word) if word == fetch.payload => self.fetch_mut(chid).acquiring = false,
                    Some(_) => return Fetched::Blocked,
                    None => return Fetched::Fault,
                }
                continue;
            }
            if fetch.words == 0 {
                match self.next_entry(chid, bus) {
                    Some(true) => continue,
                    Some(false) => return Fetched::Drained,
                    None => return Fetched::Fault,
                }
            }
            if self.budget == 0 {
                return Fetched::More;
            }
            self.budget -= 1;
            let Some(word) = bus.memory_read(chid, fetch.va) else {
                return Fetched::Fault;
            };
            let state = self.fetch_mut(chid);
            state.va = state.va.wrapping_add(4);
            state.words -= 1;
            match self.execute(chid, engine, word, bus) {
                Executed::Next => {}
                Executed::Wait => return Fetched::Blocked,
                Executed::Bad => return Fetched::Fault,
            }
        }
        Fetched::More
    }

    /// Takes the next GPFIFO entry; `Some(false)`: there is none, `None`: it cannot be taken.
    fn next_entry<B: Bus>(&mut self, chid: Chid, bus: &mut B) -> Option<bool> {
        let slot = self.userd(chid)?;
        let channel = *self.channel(chid)?;
        let put = bus.userd_read(slot + submit::USERD_GP_PUT);
        if put == channel.gp_get {
            return Some(false);
        }
        if put >= channel.gp_entries {
            return None;
        }
        let at = channel
            .gp_base
            .checked_add(u64::from(channel.gp_get) * submit::GP_ENTRY_SIZE)?;
        let entry = [
            bus.memory_read(chid, at)?,
            bus.memory_read(chid, at.checked_add(4)?)?,
        ];
        let words = submit::gp_entry_words(entry);
        // A header must not span two pushbuffers of different entries: that is how real ones are
        // built, and a remainder means that the stream is out of step.
        if channel.fetch.count != 0 {
            return None;
        }
        let gp_get = (channel.gp_get + 1) & (channel.gp_entries - 1);
        let state = self.channels.get_mut(usize::from(chid.0))?;
        state.gp_get = gp_get;
        state.fetch.va = submit::gp_entry_va(entry);
        state.fetch.words = words;
        bus.userd_write(slot + submit::USERD_GP_GET, gp_get);
        Some(true)
    }

    /// Executes one pushbuffer word: a header, or the data of a method.
    fn execute<B: Bus>(&mut self, chid: Chid, engine: usize, word: u32, bus: &mut B) -> Executed {
        let fetch = *self.fetch_mut(chid);
        if fetch.count != 0 {
            let state = self.fetch_mut(chid);
            state.count -= 1;
            state.method = state.method.wrapping_add(state.increment);
            let method = Method {
                subchannel: fetch.subchannel,
                offset: fetch.method,
                data: word,
            };
            return self.method(chid, engine, method, bus);
        }
        let (first, subchannel) = ((word & 0x1fff) << 2, (word >> 13) & 7);
        let count = (word >> 16) & 0x1fff;
        let state = self.fetch_mut(chid);
        state.subchannel = subchannel;
        state.method = first;
        match word >> 29 {
            0 if word == 0 => Executed::Next,
            1 => {
                (state.count, state.increment) = (count, 4);
                Executed::Next
            }
            3 => {
                (state.count, state.increment) = (count, 0);
                Executed::Next
            }
            4 => {
                let method = Method {
                    subchannel,
                    offset: first,
                    data: count,
                };
                self.method(chid, engine, method, bus)
            }
            _ => Executed::Bad,
        }
    }

    fn method<B: Bus>(
        &mut self,
        chid: Chid,
        engine: usize,
        method: Method,
        bus: &mut B,
    ) -> Executed {
        if method.offset >= method::ENGINE_FIRST {
            return self.engine_method(chid, engine, method);
        }
        let data = method.data;
        let fetch = self.fetch_mut(chid);
        match method.offset {
            method::SEMAPHORE_A => {
                fetch.semaphore = (fetch.semaphore & 0xffff_ffff) | (u64::from(data & 0xff) << 32);
            }
            method::SEMAPHORE_B => {
                fetch.semaphore = (fetch.semaphore & !0xffff_ffff) | u64::from(data & !3);
            }
            method::SEMAPHORE_C => fetch.payload = data,
            method::SEMAPHORE_D => return self.semaphore(chid, data, bus),
            method::NON_STALL_INTERRUPT => {
                self.raise(regs::INTR_NON_STALL, bus);
                bus.notify(Notice::NonStall(chid));
            }
            _ => {}
        }
        Executed::Next
    }

    fn semaphore<B: Bus>(&mut self, chid: Chid, operation: u32, bus: &mut B) -> Executed {
        let fetch = self.fetch_mut(chid);
        let (va, payload) = (fetch.semaphore, fetch.payload);
        match operation & submit::SEMAPHORE_OPERATION {
            submit::SEMAPHORE_RELEASE if bus.memory_write(chid, va, payload) => Executed::Next,
            submit::SEMAPHORE_ACQUIRE => match bus.memory_read(chid, va) {
                Some(word) if word == payload => Executed::Next,
                Some(_) => {
                    self.fetch_mut(chid).acquiring = true;
                    Executed::Wait
                }
                None => Executed::Bad,
            },
            _ => Executed::Bad,
        }
    }

    /// Engine methods: the length of a command and its launch, on the engine's own subchannel.
    fn engine_method(&mut self, chid: Chid, engine: usize, method: Method) -> Executed {
        let own = if engine == GR {
            submit::SUBCHANNEL_COMPUTE
        } else {
            submit::SUBCHANNEL_COPY
        };
        if method.subchannel != own {
            return Executed::Bad;
        }
        let fetch = self.fetch_mut(chid);
        let data = method.data;
        match method.offset {
            method::DURATION_LO => {
                fetch.duration = (fetch.duration & !0xffff_ffff) | u64::from(data);
            }
            method::DURATION_HI => {
                fetch.duration = (fetch.duration & 0xffff_ffff) | (u64::from(data) << 32);
            }
            method::LAUNCH if fetch.duration <= submit::COMMAND_NS_MAX => {
                fetch.launch = Some(fetch.duration);
            }
            _ => return Executed::Bad,
        }
        Executed::Next
    }

    /// The fetch state of a channel that is known to exist.
    fn fetch_mut(&mut self, chid: Chid) -> &mut Fetch {
        // PANIC: callers found the channel in the table, whose length never changes.
        &mut self.channels[usize::from(chid.0)].fetch
    }
}
