// SPDX-License-Identifier: GPL-2.0

//! Periods of synthetic clients: the work of the main thread in each, without the threads, the
//! gates and the registers.

use crate::account::waits::Waited;
use crate::account::{Accountant, Slot, MAX_SLOTS};
use crate::engine::{Action, Config, Engine, Wake};
use crate::gpu::{Ended, GpuState};
use crate::ids::{Chid, ClientId};
use crate::policies::{PolicyKind, ScanResult};
use crate::regs::Occupant;
use crate::share::{GroupBy, Identity, Settings, Shares, Totals, MAX_SETTINGS, MAX_TOTALS};
use crate::storage::{find_near, Storage};
use crate::units::Ns;
use kernel::bindings;
use kernel::prelude::*;

/// Periods before the first measured one, and measured periods.
const WARM_UP: usize = 40;
const COUNTED: usize = 9;
/// Bound of the steps of a phase.
const MAX_WAKES: usize = 1_000;
/// Clients of one user.
const PER_USER: u32 = 10;

/// The clients of a measurement.
pub(crate) struct Crowd {
    pub(crate) policy: PolicyKind,
    pub(crate) group_by: GroupBy,
    pub(crate) clients: u32,
    /// Clients that want the GPU, evenly spread among all.
    pub(crate) active: u32,
    /// Channels of each client.
    pub(crate) channels: u32,
}

/// Time that a decision took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    /// The engine: the policy and the checks of its answer.
    pub(crate) policy: Ns,
    /// The booking around it.
    pub(crate) around: Ns,
    /// The booking around a scan, for policies that work in stages.
    pub(crate) scan: Ns,
}

/// Pages of submission slots of a client, whose first channel lies in the first of them.
const PAGES: usize = 2;

/// A page of submission slots, and the position of its client.
struct Page {
    number: usize,
    owner: usize,
}

/// The state of the main thread.
pub(crate) struct Round {
    state: GpuState<Vectors>,
    accountant: Accountant,
    slots: KVVec<Slot>,
    pages: KVVec<Page>,
    /// Clients that used the GPU in the last polling phase, and for how long they waited in it.
    waits: KVVec<(ClientId, Ns)>,
    /// One client in this many is active.
    every: u32,
    active: u32,
    per_client: u32,
    now: Ns,
    /// Periods so far: what clients use and how long they wait changes from one to the next.
    periods: u32,
}

/// Tables in vectors of the kernel.
struct Vectors;

impl Storage for Vectors {
    type Of<T: 'static> = KVVec<T>;
}

fn storage<T: Clone + Default>(count: usize) -> Result<KVVec<T>> {
    let mut store = KVVec::new();
    store.extend_with(count, T::default(), GFP_KERNEL)?;
    Ok(store)
}

fn clock() -> Ns {
    // SAFETY: Readable from every context, without conditions.
    Ns::new(unsafe { bindings::ktime_get_mono_fast_ns() })
}

impl Round {
    pub(crate) fn new(crowd: &Crowd) -> Result<Self> {
        let config = Config {
            policy: crowd.policy,
            enforce: true,
            ..Config::paper()
        };
        // CAST: (all) a few thousand.
        let count = crowd.clients as usize;
        let mut round = Self {
            state: GpuState::new(
                Engine::new(config, 1).map_err(|_| EINVAL)?,
                Shares::new(
                    storage(count)?,
                    storage(count * 2)?,
                    storage(count * 2)?,
                    Totals::new(storage(MAX_TOTALS)?),
                    crowd.group_by,
                ),
                Settings::new(storage(MAX_SETTINGS)?),
            ),
            accountant: Accountant::new(),
            slots: storage(MAX_SLOTS)?,
            pages: KVVec::new(),
            waits: KVVec::with_capacity(count, GFP_KERNEL)?,
            every: crowd.clients.checked_div(crowd.active).unwrap_or(1),
            active: crowd.active,
            per_client: crowd.channels,
            now: Ns::from_ms(1),
            periods: 0,
        };
        for number in 0..crowd.clients {
            round.join(number)?;
        }
        let allocated = crowd.clients.saturating_mul(crowd.channels);
        round.state.engine.channels_changed(round.now, allocated);
        Ok(round)
    }

    fn join(&mut self, number: u32) -> Result {
        let client = ClientId::new(u64::from(number) + 1);
        let identity = Identity {
            process: client.get(),
            cgroup: (number / PER_USER).into(),
            user: number / PER_USER,
            ..Identity::default()
        };
        let joined = self.state.join(client, identity);
        let owner = joined.map_err(|_| ENOMEM)?;
        for page in 0..PAGES {
            // CAST: a few thousand.
            let number = number as usize * PAGES + page;
            self.pages.push(Page { number, owner }, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// The medians over some periods.
    pub(crate) fn median(&mut self) -> Cost {
        let mut costs = [Cost::default(); COUNTED];
        for _ in 0..WARM_UP {
            self.period();
        }
        for cost in costs.iter_mut() {
            *cost = self.period();
        }
        Cost {
            policy: middle(costs.map(|cost| cost.policy)),
            around: middle(costs.map(|cost| cost.around)),
            scan: middle(costs.map(|cost| cost.scan)),
        }
    }

    /// A period, up to and with its decision.
    fn period(&mut self) -> Cost {
        self.periods = self.periods.wrapping_add(1);
        self.pass_until(Action::StartPolling);
        self.poll();
        self.pass_until(Action::StopPolling);
        let mut cost = self.decide();
        if self.state.engine.config().policy.staged() {
            let (policy, around) = self.scan();
            cost.policy = cost.policy.saturating_add(policy);
            cost.scan = around;
        }
        cost
    }

    /// Lets time pass until the engine wants this. Scans that it wants before are left out.
    fn pass_until(&mut self, wanted: Action) {
        for _ in 0..MAX_WAKES {
            match self.state.engine.wake(self.now, Wake::ChannelsChanged) {
                action if action == wanted => return,
                Action::Scan => self.now = self.now.saturating_add(Ns::from_ms(1_000)),
                _ => {
                    let next = self.state.engine.next_deadline().unwrap_or(self.now);
                    self.now = self.now.max(next);
                }
            }
        }
    }

    /// The clients that are active and not throttled use the GPU, in turns of 50 to 150 us.
    ///
    /// The GPU shows the first channel of a client, under the number of the client: there are
    /// fewer hardware ids than channels here.
    fn poll(&mut self) {
        let begin = self.now;
        self.accountant
            .begin(&mut self.slots, begin, Occupant::Idle);
        let mut now = begin;
        // About that of the phase, in microseconds.
        let length = u64::from(self.active) * 100;
        self.waits.clear();
        for (at, member) in self.state.shares.members().iter().enumerate() {
            // CAST: a few thousand.
            let number = at as u32;
            if !self.is_active(number) || member.throttled_by().is_some() {
                continue;
            }
            let chid = Chid::from_bits(number);
            self.accountant
                .observe(&mut self.slots, now, Occupant::Channel(chid));
            let turn = 50 + self.vary(number, 101);
            now = now.saturating_add(Ns::from_us(turn));
            // Any part of the phase.
            let waited = Ns::from_us(self.vary(number, 128) * length / 128);
            // There is room for all clients.
            let _ = self.waits.push_within_capacity((member.id(), waited));
        }
        self.accountant
            .observe(&mut self.slots, now, Occupant::Idle);
        self.now = now.saturating_add(Ns::from_us(100));
    }

    /// A number below this one, which differs between clients and periods.
    fn vary(&self, number: u32, below: u32) -> u64 {
        let mixed = number.wrapping_mul(131).wrapping_add(self.periods * 37);
        mixed.checked_rem(below).unwrap_or(0).into()
    }

    fn is_active(&self, number: u32) -> bool {
        number.checked_rem(self.every) == Some(0)
    }

    /// The steps of the main thread, each with its time.
    fn decide(&mut self) -> Cost {
        let totals = self.accountant.end(&mut self.slots, self.now);
        let pages = &self.pages;
        let mut near = 0;
        // As the module does: it remembers the page that it charged last.
        let mut owner = |index: usize| {
            let number = index.saturating_mul(PAGES);
            near = find_near(pages, near, &number, |page| page.number)?;
            pages.get(near).map(|page| page.owner)
        };
        let ended = Ended {
            totals,
            slots: &self.slots,
            used: self.accountant.used(),
            strata: None,
            alone: false,
            copies: None,
        };
        let begin = clock();
        self.state
            .begin_phase(core::iter::empty(), core::iter::empty());
        let waits = self.waits.iter().copied();
        let waits = waits.map(|(id, waited)| (id, Waited::to_compute(waited)));
        let totals = self.state.charge(ended, &mut owner, waits);
        let asked = clock();
        self.state.decide(&totals);
        let answered = clock();
        self.state.book(self.now, &totals, None, false);
        let end = clock();
        Cost {
            policy: answered.saturating_sub(asked),
            around: asked
                .saturating_sub(begin)
                .saturating_add(end.saturating_sub(answered)),
            scan: Ns::ZERO,
        }
    }

    /// A channel scan, for policies that work in stages; without the registers that it reads. Returns
    /// what the policy took, and what was around it.
    fn scan(&mut self) -> (Ns, Ns) {
        let begin = clock();
        self.state.begin_scan();
        for at in 0..self.state.shares.members().len() {
            // CAST: a few thousand.
            let seen = ScanResult {
                pending: self.is_active(at as u32),
                submitted: 1,
                completed: 1,
                ..ScanResult::default()
            };
            for _ in 0..self.per_client {
                self.state.shares.add_scan(at, &seen, 1);
            }
        }
        let asked = clock();
        self.state.decide_scan(self.now);
        let answered = clock();
        self.state.apply(self.now);
        let end = clock();
        let before = asked.saturating_sub(begin);
        let around = before.saturating_add(end.saturating_sub(answered));
        (answered.saturating_sub(asked), around)
    }
}

/// The value in the middle.
fn middle(mut times: [Ns; COUNTED]) -> Ns {
    for end in 1..COUNTED {
        for at in (0..end).rev() {
            if let Some([before, after]) = times.get_mut(at..=at.saturating_add(1)) {
                if *after < *before {
                    core::mem::swap(before, after);
                }
            }
        }
    }
    times.get(COUNTED / 2).copied().unwrap_or_default()
}
