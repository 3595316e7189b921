// SPDX-License-Identifier: GPL-2.0

//! A discrete-event calculation of clients on one GPU.
//!
//! The GPU walks its channels round robin and runs a command to completion; a
//! switch costs nothing unless asked for, and is charged to who comes next. A client submits one command at a time on one channel, and
//! not while it is held back. The poller sees every change at once, and the main
//! thread is never late. What accounts, decides and ends phases is the code of the
//! kernel module.

use crate::mixes::{Load, Mix};
use loga::account::{settle, Accountant, PhaseTotals, Slot};
use loga::engine::{Action, Config, Engine, Sight, Wake};
use loga::fair::estimate;
use loga::ids::{Chid, ClientId, MAX_CHANNELS};
use loga::policies::{ClientState, Seen, SCRATCH};
use loga::regs::Occupant;
use loga::units::{Ns, VTime};

/// Time between two samples of the channel table, as the kernel takes them.
const SAMPLE: Ns = Ns::from_ms(1);

/// Channels a client allocates. It uses the first of them.
pub const CHANNELS_PER_CLIENT: u16 = 12;

/// What one client got.
#[derive(Clone, Copy, Debug, Default)]
pub struct Result {
    /// GPU time.
    pub gpu: Ns,
    /// GPU time as LoGA estimates it from its polling phases.
    pub estimated: Ns,
    /// Time held back.
    pub held: Ns,
    /// Commands completed.
    pub commands: u64,
}

/// What a client is doing.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// It sleeps.
    Sleeps { until: Ns },
    /// It wants to submit, and does so when it is not held back.
    Submits,
    /// Its command waits.
    Waits,
    /// Its command runs.
    Runs { until: Ns },
}

struct Client {
    load: Load,
    doing: Doing,
    vtime: VTime,
    /// Since when it is held back.
    held: Option<Ns>,
    /// Time waited in this polling phase, and samples that found it waiting.
    waited: Ns,
    waiting_samples: u64,
    /// Commands at the last look.
    looked: u64,
    scratch: [u64; SCRATCH],
    result: Result,
}

/// One GPU, its clients, and LoGA.
pub struct Sim {
    now: Ns,
    clients: Vec<Client>,
    /// The client whose command ran last: the next one is served first.
    last: usize,
    /// Cost of a switch to another client.
    switch: Ns,
    engine: Engine,
    accountant: Accountant,
    slots: Vec<Slot>,
    /// When the channel table is sampled next, and samples in this phase. Without it,
    /// waits are known exactly.
    sample: Option<(Ns, u64)>,
}

impl Sim {
    /// Lets waits be estimated from a sample of the channel table every millisecond.
    #[must_use]
    pub fn with_sampled_waits(mut self) -> Self {
        self.sample = Some((SAMPLE, 0));
        self
    }

    /// All clients of a mix, about to submit their first command at time zero.
    ///
    /// # Errors
    ///
    /// A setting out of range.
    pub fn new(
        mix: &Mix,
        config: Config,
        switch: Ns,
    ) -> std::result::Result<Self, loga::error::Error> {
        let client = |load: &Load| Client {
            load: *load,
            doing: Doing::Submits,
            vtime: VTime::ZERO,
            held: None,
            waited: Ns::ZERO,
            waiting_samples: 0,
            looked: 0,
            scratch: [0; SCRATCH],
            result: Result::default(),
        };
        Ok(Self {
            now: Ns::ZERO,
            clients: mix.loads.iter().map(client).collect(),
            last: mix.loads.len() - 1,
            switch,
            engine: Engine::new(config, 1)?,
            accountant: Accountant::new(),
            slots: vec![Slot::default(); MAX_CHANNELS],
            sample: None,
        })
    }

    /// Runs until `end` and says what each client got.
    pub fn run(mut self, end: Ns) -> Vec<Result> {
        // CAST: a mix has a handful of clients.
        let allocated = u32::from(CHANNELS_PER_CLIENT) * self.clients.len() as u32;
        self.engine.channels_changed(Ns::ZERO, allocated);
        self.step(Wake::ChannelsChanged);
        while let Some(next) = self.next_event().filter(|next| *next < end) {
            self.pass(next);
            self.step(Wake::Timer);
        }
        self.now = end;
        for client in &mut self.clients {
            // The command that runs at the end counts as far as it has come.
            if let Doing::Runs { until } = client.doing {
                let left = until.saturating_sub(end);
                let ran = client.load.kernel.saturating_sub(left);
                client.result.gpu = client.result.gpu.saturating_add(ran);
            }
            release(client, end);
        }
        self.clients.iter().map(|client| client.result).collect()
    }

    /// Lets time pass in which nothing happens but waiting.
    fn pass(&mut self, next: Ns) {
        let time = next.saturating_sub(self.now);
        self.now = next;
        if !self.engine.polling() {
            return;
        }
        let waiting = |client: &&mut Client| matches!(client.doing, Doing::Waits);
        for client in self.clients.iter_mut().filter(waiting) {
            client.waited = client.waited.saturating_add(time);
        }
        if let Some((at, samples)) = self.sample.as_mut().filter(|(at, _)| *at <= next) {
            *at = next.saturating_add(SAMPLE);
            *samples += 1;
            for client in self.clients.iter_mut().filter(waiting) {
                client.waiting_samples += 1;
            }
        }
    }

    /// When something happens next.
    fn next_event(&self) -> Option<Ns> {
        let clients = self.clients.iter().filter_map(|client| match client.doing {
            Doing::Sleeps { until } | Doing::Runs { until } => Some(until),
            Doing::Submits | Doing::Waits => None,
        });
        let polling = self.engine.polling();
        let sample = self.sample.map(|(at, _)| at).filter(|_| polling);
        // Something may have been due while another thing was done.
        let due = |at: Ns| at.max(self.now);
        clients
            .chain(self.engine.next_deadline().map(due))
            .chain(sample.map(due))
            .min()
    }

    /// Lets everything happen that is due now.
    fn step(&mut self, wake: Wake) {
        self.complete();
        self.submit();
        self.dispatch();
        let occupant = self.occupant();
        if self.engine.polling() {
            self.accountant.observe(&mut self.slots, self.now, occupant);
        }
        match self.engine.wake(self.now, wake) {
            Action::None => {}
            Action::StartPolling => {
                self.accountant.begin(&mut self.slots, self.now, occupant);
                self.sample = self.sample.map(|_| (self.now, 0));
                for client in &mut self.clients {
                    client.waited = Ns::ZERO;
                    client.waiting_samples = 0;
                }
            }
            Action::Look => {
                let mut states = self.states();
                self.engine.look(self.now, &mut states);
                self.carry_out(&states);
            }
            Action::StopPolling => {
                let totals = self.accountant.end(&mut self.slots, self.now);
                self.decide(totals);
            }
        }
    }

    /// Ends the command that runs, if it is done, and lets its client go on.
    fn complete(&mut self) {
        for client in &mut self.clients {
            if matches!(client.doing, Doing::Runs { until } if until <= self.now) {
                client.result.commands += 1;
                client.result.gpu = client.result.gpu.saturating_add(client.load.kernel);
                let until = self.now.saturating_add(client.load.sleep);
                client.doing = Doing::Sleeps { until };
            }
        }
    }

    /// Lets clients submit whose sleep is over and who are not held back.
    fn submit(&mut self) {
        for client in &mut self.clients {
            if matches!(client.doing, Doing::Sleeps { until } if until <= self.now) {
                client.doing = Doing::Submits;
            }
            if matches!(client.doing, Doing::Submits) && client.held.is_none() {
                client.doing = Doing::Waits;
            }
        }
    }

    /// Starts the next command in turn, if none runs.
    fn dispatch(&mut self) {
        if self.running().is_some() {
            return;
        }
        let count = self.clients.len();
        let in_turn = (1..=count).map(|step| (self.last + step) % count);
        let next = in_turn
            .into_iter()
            .find(|index| matches!(self.clients[*index].doing, Doing::Waits));
        if let Some(index) = next {
            let switch = if index == self.last {
                Ns::ZERO
            } else {
                self.switch
            };
            let time = self.clients[index].load.kernel.saturating_add(switch);
            let until = self.now.saturating_add(time);
            self.clients[index].doing = Doing::Runs { until };
            self.last = index;
        }
    }

    /// The client whose command runs.
    fn running(&self) -> Option<usize> {
        self.clients
            .iter()
            .position(|client| matches!(client.doing, Doing::Runs { .. }))
    }

    /// What the status word shows.
    fn occupant(&self) -> Occupant {
        self.running().map_or(Occupant::Idle, |index| {
            // CAST: a mix has a handful of clients.
            let chid = u32::from(CHANNELS_PER_CLIENT) * index as u32;
            Occupant::Channel(Chid::from_bits(chid))
        })
    }

    /// Decides after a polling phase and carries the decision out.
    fn decide(&mut self, mut totals: PhaseTotals) {
        let mut states = self.states();
        for (state, client) in states.iter_mut().zip(&self.clients) {
            state.waited = match self.sample {
                _ if self.engine.config().wants() != Sight::Waits => Ns::ZERO,
                Some((_, samples)) if samples > 0 => {
                    Ns::new(totals.length.get() * client.waiting_samples / samples)
                }
                Some(_) => Ns::ZERO,
                None => client.waited,
            };
        }
        let mut owner = |slot| Some(slot / usize::from(CHANNELS_PER_CLIENT));
        let used = self.accountant.used();
        settle(
            &mut totals,
            &self.slots,
            used,
            &mut owner,
            states.as_mut_slice(),
        );
        self.engine.decide(&totals, &mut states);
        let stats = self.engine.stats();
        let span = stats.last_poll.saturating_add(stats.last_nonpoll);
        for (client, state) in self.clients.iter_mut().zip(&states) {
            let time = estimate(state.busy, stats.last_poll, span);
            client.result.estimated = client.result.estimated.saturating_add(time);
        }
        self.carry_out(&states);
    }

    /// The clients as the engine sees them, before time used is added.
    fn states(&mut self) -> Vec<ClientState> {
        let state = |(id, client): (u64, &mut Client)| {
            let id = ClientId::new(id);
            let mut state = ClientState::new(id, client.load.weight, client.vtime);
            state.held = client.held.is_some();
            state.channels = CHANNELS_PER_CLIENT.into();
            state.scratch = client.scratch;
            // CAST: the commands of a millisecond.
            let completed = (client.result.commands - client.looked) as u32;
            state.seen = Seen {
                pending: matches!(client.doing, Doing::Waits | Doing::Runs { .. }),
                blocked: matches!(client.doing, Doing::Submits) && client.held.is_some(),
                submitted: completed,
                completed,
            };
            state
        };
        (0u64..).zip(&mut self.clients).map(state).collect()
    }

    /// Keeps what was decided, and holds back and releases clients.
    fn carry_out(&mut self, states: &[ClientState]) {
        assert_eq!(
            self.engine.last_fallback(),
            None,
            "a policy broke its contract"
        );
        for (client, state) in self.clients.iter_mut().zip(states) {
            client.vtime = state.vtime;
            client.scratch = state.scratch;
            client.looked = client.result.commands;
            if !state.held {
                release(client, self.now);
            } else if client.held.is_none() {
                client.held = Some(self.now);
            }
        }
        self.submit();
        self.dispatch();
    }
}

/// Lets a client submit again.
fn release(client: &mut Client, now: Ns) {
    if let Some(since) = client.held.take() {
        let time = now.saturating_sub(since);
        client.result.held = client.result.held.saturating_add(time);
    }
}
