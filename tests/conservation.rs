// SPDX-License-Identifier: GPL-2.0

//! Property: no time is lost or made up, whatever the engine shows and whenever it is polled.

use loga::account::{
    settle, slot_of, tsg_of, Accountant, Copies, EngineKind, PhaseTotals, Slot, MAX_SLOTS,
};
use loga::engine::{Action, Config, Engine, Wake};
use loga::gpu::{Ended, GpuState};
use loga::ids::{Chid, ClientId, GroupId, TsgId};
use loga::policies::{ClientState, PolicyKind};
use loga::regs::{Mmio, Occupant};
use loga::share::{
    Account, Entry, Group, GroupBy, Identity, Kind, Member, Row, Settings, Shares, Totals,
};
use loga::units::{Ns, VTime, Weight};
use loga::Vectors;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Clients among which the channels are divided; every fifth channel has no owner.
const CLIENTS: usize = 4;

fn occupant() -> impl Strategy<Value = Occupant> {
    prop_oneof![
        Just(Occupant::Idle),
        Just(Occupant::Unknown),
        (0u32..4096).prop_map(|id| Occupant::Channel(Chid::from_bits(id))),
        (0u32..24).prop_map(|id| Occupant::Channel(Chid::from_bits(id))),
        (0u32..4096, 0u32..3).prop_map(|(id, context)| {
            let id = TsgId::from_bits(id);
            Occupant::Tsg { id, context }
        }),
    ]
}

/// Polls of an engine: time since the last poll, which may be negative, and the occupant.
fn polls() -> impl Strategy<Value = Vec<(i64, Occupant)>> {
    prop::collection::vec((-1000i64..2_000_000, occupant()), 1..200)
}

fn owner(slot: usize) -> Option<usize> {
    (slot % 5 != 4).then_some(slot % CLIENTS)
}

fn clients() -> Vec<ClientState> {
    let state = |id| ClientState::new(GroupId::new(id), Weight::DEFAULT, VTime::ZERO);
    (0..CLIENTS as u64).map(state).collect()
}

/// Runs one phase and returns its totals and the latest time seen in it.
fn phase(
    accountant: &mut Accountant,
    slots: &mut [Slot],
    start: u64,
    polls: &[(i64, Occupant)],
) -> (PhaseTotals, u64) {
    let (mut now, mut latest) = (start, start);
    accountant.begin(slots, Ns::new(start), polls[0].1);
    for (step, occupant) in polls {
        now = now.saturating_add_signed(*step);
        latest = latest.max(now);
        accountant.observe(slots, Ns::new(now), *occupant);
    }
    (accountant.end(slots, Ns::new(latest)), latest)
}

/// The status word of the copy engine at a look; nothing: the read is refused.
fn copies() -> impl Strategy<Value = Vec<(u64, Option<u32>)>> {
    let word = prop_oneof![
        6 => (0u32..24).prop_map(|id| Some(0x8000_2000 | id)),
        2 => Just(Some(0)),
        1 => (0u32..4096).prop_map(|id| Some(0x8000_3000 | id)),
    ];
    let refused = prop_oneof![20 => Just(false), 1 => Just(true)];
    let look = (0u64..2_000_000, word, refused)
        .prop_map(|(step, word, refused)| (step, word.filter(|_| !refused)));
    prop::collection::vec(look, 1..40)
}

/// A copy engine's status word.
struct Word(Option<u32>);

impl Mmio for Word {
    fn read32(&self, _offset: u32) -> u32 {
        self.0.unwrap_or(0xbadf_1201)
    }
}

/// The books of a GPU with two engines.
struct Books {
    state: GpuState<Vectors>,
    accountant: Accountant,
    slots: Vec<Slot>,
    copies: Copies<Vectors>,
    now: Ns,
    /// Time of copies in all phases so far, and what clients had of it.
    length: u64,
    owned: u64,
}

impl Books {
    fn new(by_user: bool) -> Self {
        let config = Config {
            policy: PolicyKind::None,
            ..Config::paper()
        };
        let mut copies = Copies::new(vec![Slot::default(); 32]);
        copies.follow(Some(4));
        let mut books = Self {
            state: GpuState::new(
                Engine::new(config, 1).expect("in range"),
                Shares::new(
                    vec![Member::default(); CLIENTS],
                    vec![Group::default(); 2 * CLIENTS],
                    vec![ClientState::default(); 2 * CLIENTS],
                    Totals::new(vec![Row::default(); 16]),
                    [GroupBy::Process, GroupBy::User][usize::from(by_user)],
                ),
                Settings::new(vec![Entry::default(); 4]),
            ),
            accountant: Accountant::new(),
            slots: vec![Slot::default(); 32],
            copies,
            now: Ns::from_ms(1),
            length: 0,
            owned: 0,
        };
        for id in 1..=CLIENTS as u64 {
            let identity = Identity {
                process: id,
                user: id as u32 % 2,
                cgroup: id % 3,
                ..Identity::default()
            };
            books.state.join(ClientId::new(id), identity).expect("room");
        }
        books.state.engine.channels_changed(books.now, 4);
        books
    }

    fn pass_until(&mut self, wanted: Action) {
        while self.state.engine.wake(self.now, Wake::ChannelsChanged) != wanted {
            let next = self.state.engine.next_deadline().expect("channels");
            self.now = self.now.max(next);
        }
    }

    /// A period of both engines, the copy engine's part of it maybe not. Returns where the time of
    /// copies went, if they were measured.
    fn period(
        &mut self,
        compute: &[(i64, Occupant)],
        copies: Option<&Vec<(u64, Option<u32>)>>,
    ) -> Option<PhaseTotals> {
        self.pass_until(Action::StartPolling);
        let begin = self.now;
        let compute: Vec<_> = compute.iter().map(|(step, on)| (step.abs(), *on)).collect();
        let (totals, end) = phase(&mut self.accountant, &mut self.slots, begin.get(), &compute);
        self.copies.forget();
        if let Some(looks) = copies {
            self.copies.begin(&Word(Some(0)), begin);
            let mut now = begin;
            for (step, word) in looks {
                now = now.saturating_add(Ns::new(*step)).min(Ns::new(end));
                self.copies.poll(&Word(*word), || now);
            }
            self.copies.end(Ns::new(end));
        }
        self.now = Ns::new(end);
        self.pass_until(Action::StopPolling);
        let ended = Ended {
            totals,
            slots: &self.slots,
            used: self.accountant.used(),
            strata: None,
            alone: false,
            copies: self.copies.found(),
        };
        self.state
            .end_phase(self.now, ended, &mut owner, std::iter::empty());
        let mut found = self.copies.found()?.totals;
        // Of the channels that have an owner.
        let slots = self.copies.found()?.slots;
        let unknown: u64 = (0..slots.len())
            .filter(|at| owner(*at).is_none())
            .map(|at| slots[at].ran.get())
            .sum();
        found.ran = found.ran.saturating_sub(Ns::new(unknown));
        found.unknown = found.unknown.saturating_add(Ns::new(unknown));
        Some(found)
    }

    /// What groups and totals have is what their processes have.
    fn check_sums(&mut self) -> Result<(), TestCaseError> {
        let kinds = [Kind::User, Kind::Cgroup].map(|kind| {
            let mut rows = vec![Row::default(); 16];
            let count = self.state.shares.totals().read(kind, false, &mut rows);
            rows.iter()
                .take(count)
                .map(|row| row.account.copied.get())
                .sum::<u64>()
        });
        let shares = &self.state.shares;
        let members: u64 = shares
            .members()
            .iter()
            .map(|one| one.account().copied.get())
            .sum();
        let groups: u64 = shares
            .groups()
            .iter()
            .map(|one| one.account().copied.get())
            .sum();
        prop_assert_eq!(groups, members);
        prop_assert_eq!(kinds, [members; 2]);
        // Nothing is charged twice: at most the time that the phases stand for.
        prop_assert!(members <= self.now.get());
        Ok(())
    }
}

proptest! {
    #[test]
    fn totals_of_any_phase_add_up_to_its_length(
        phases in prop::collection::vec(polls(), 1..4),
        room in prop_oneof![Just(16usize), Just(4096), Just(MAX_SLOTS)],
    ) {
        let mut accountant = Accountant::new();
        let mut slots = vec![Slot::default(); room];
        let mut start = 1_000_000;
        for polls in phases {
            let (mut totals, end) = phase(&mut accountant, &mut slots, start, &polls);
            prop_assert_eq!(totals.length.get(), end - start);
            prop_assert_eq!(
                totals.length.get(),
                totals.idle.get() + totals.unknown.get() + totals.ran.get()
            );
            // Also over the whole table: the phase before has left nothing.
            let ran: u64 = slots.iter().map(|slot| slot.ran.get()).sum();
            prop_assert_eq!(ran, totals.ran.get());

            let mut clients = clients();
            settle(
                EngineKind::Compute,
                &mut totals,
                &slots,
                accountant.used(),
                &mut owner,
                clients.as_mut_slice(),
            );
            let busy: u64 = clients.iter().map(|client| client.busy.get()).sum();
            prop_assert_eq!(busy, totals.ran.get());
            prop_assert_eq!(
                totals.length.get(),
                totals.idle.get() + totals.unknown.get() + busy
            );
            start = end;
        }
    }

    #[test]
    fn polling_more_often_changes_nothing(polls in polls()) {
        let twice: Vec<_> = polls
            .iter()
            .flat_map(|poll| [*poll, (0, poll.1), (0, poll.1)])
            .collect();
        let run = |polls: &[(i64, Occupant)]| {
            let mut slots = vec![Slot::default(); MAX_SLOTS];
            let totals = phase(&mut Accountant::new(), &mut slots, 0, polls).0;
            (totals, slots)
        };
        prop_assert_eq!(run(&polls), run(&twice));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Both engines of a GPU, over periods with and without a readable copy word: what clients,
    /// groups and totals got of copies is what the phases had, no more and no less, and copies
    /// change nothing of compute.
    #[test]
    fn time_of_copies_is_conserved_beside_that_of_compute(
        periods in prop::collection::vec((polls(), copies()), 1..6),
        by_user in any::<bool>(),
    ) {
        let mut both = Books::new(by_user);
        let mut alone = Books::new(by_user);
        for (compute, copies) in &periods {
            let seen = both.period(compute, Some(copies));
            alone.period(compute, None);
            let copied = both.state.sums().copies;
            prop_assert_eq!(copied.measured, seen.is_some());
            let used = both.state.shares.members().iter().map(|one| one.used().copied.get());
            if let Some(totals) = seen {
                prop_assert_eq!(totals.length.get(), totals.idle.get() + totals.ran.get() + totals.unknown.get());
                both.length += totals.length.get();
                both.owned += used.sum::<u64>();
            } else {
                prop_assert_eq!(used.sum::<u64>(), 0);
            }
            let copied = both.state.sums().copies;
            prop_assert_eq!(copied.polled.get(), both.length);
            prop_assert_eq!(copied.idle.get() + copied.unknown.get() + both.owned, both.length);
            both.check_sums()?;
            for (with, without) in both.state.shares.members().iter().zip(alone.state.shares.members()) {
                let account = Account { copied: Ns::ZERO, copied_variance_us2: 0, ..*with.account() };
                prop_assert_eq!(&account, without.account());
            }
        }
    }
}

/// Here and not beside the accountant: the table of all slots does not fit the stack of a kernel.
#[test]
fn tsg_goes_on_with_another_channel_and_keeps_the_last_context() {
    let tsg = |context| {
        let id = TsgId::from_bits(3);
        Occupant::Tsg { id, context }
    };
    let mut slots = vec![Slot::default(); MAX_SLOTS];
    let mut accountant = Accountant::new();
    accountant.begin(&mut slots, Ns::ZERO, tsg(0));
    accountant.observe(&mut slots, Ns::new(10), tsg(77));
    accountant.observe(&mut slots, Ns::new(20), tsg(0));
    let other = Occupant::Channel(Chid::from_bits(1));
    accountant.observe(&mut slots, Ns::new(30), other);
    let totals = accountant.end(&mut slots, Ns::new(40));
    let (ran, runs, context) = (Ns::new(30), 0, 77);
    let at = slot_of(tsg(0)).expect("a TSG has a slot");
    assert_eq!(slots[at], Slot { ran, runs, context });
    assert_eq!(totals.switches, 1);
    assert_eq!(tsg_of(at), Some(TsgId::from_bits(3)));
    assert_eq!((tsg_of(4095), tsg_of(MAX_SLOTS)), (None, None));
}
