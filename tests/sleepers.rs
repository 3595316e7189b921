// SPDX-License-Identifier: GPL-2.0

//! Property: the sleep of processes that do nothing changes no decision and no account. Two sets of
//! books see the same phases; in one of them all processes are woken before each decision.

use loga::account::{PhaseTotals, Slot};
use loga::engine::{Action, ClientState, Config, Engine, Wake};
use loga::gpu::{Ended, GpuState};
use loga::ids::ClientId;
use loga::policies::PolicyKind;
use loga::share::{
    Change, Entry, Group, GroupBy, Identity, Member, Row, Settings, Shares, Subject, Totals, QUIET,
};
use loga::units::Ns;
use loga::Vectors;
use proptest::prelude::*;

/// Processes, of three users.
const PROCESSES: u64 = 6;

/// Most that means may differ by: they are rounded in each period of a process that is awake.
const MEANS_PPM: u32 = 20;

/// What the processes use in a number of phases in a row, in parts of 1000.
#[derive(Clone, Debug)]
struct Spell {
    phases: u32,
    used: Vec<u16>,
}

fn spell() -> impl Strategy<Value = Spell> {
    let part = prop_oneof![3 => Just(0u16), 1 => 1u16..160];
    let phases = prop_oneof![1u32..4, Just(QUIET - 1), Just(QUIET + 3)];
    let used = prop::collection::vec(part, PROCESSES as usize);
    (phases, used).prop_map(|(phases, used)| Spell { phases, used })
}

/// The books of a GPU, as the main thread keeps them.
struct Books {
    state: GpuState<Vectors>,
    now: Ns,
    /// No process may sleep.
    wakes: bool,
}

impl Books {
    fn new(policy: PolicyKind, group_by: GroupBy, wakes: bool) -> Self {
        let config = Config {
            policy,
            enforce: true,
            ..Config::paper()
        };
        let mut settings = Settings::<Vectors>::new(vec![Entry::default(); 4]);
        let fifth = Change {
            limit: Some(20),
            ..Change::default()
        };
        let limited = settings.set(Subject::User(2), None, &fifth);
        limited.expect("in range");
        let mut books = Self {
            state: GpuState::new(
                Engine::new(config, 1).expect("in range"),
                Shares::new(
                    vec![Member::default(); PROCESSES as usize],
                    vec![Group::default(); 2 * PROCESSES as usize],
                    vec![ClientState::default(); 2 * PROCESSES as usize],
                    Totals::new(vec![Row::default(); 8]),
                    group_by,
                ),
                settings,
            ),
            now: Ns::from_ms(1),
            wakes,
        };
        for id in 1..=PROCESSES {
            let identity = Identity {
                process: id,
                user: (id % 3) as u32,
                ..Identity::default()
            };
            let joined = books.state.join(ClientId::new(id), identity);
            joined.expect("room");
        }
        books.state.engine.channels_changed(books.now, 12);
        books
    }

    fn pass_until(&mut self, wanted: Action) {
        while self.state.engine.wake(self.now, Wake::ChannelsChanged) != wanted {
            let next = self.state.engine.next_deadline().expect("channels");
            self.now = self.now.max(next);
        }
    }

    fn period(&mut self, used: &[u16]) {
        self.pass_until(Action::StartPolling);
        let begin = self.now;
        self.pass_until(Action::StopPolling);
        let length = self.now.saturating_sub(begin);
        let mut totals = PhaseTotals {
            length,
            idle: length,
            ..PhaseTotals::default()
        };
        let mut slots = vec![Slot::default(); PROCESSES as usize];
        for ((at, part), slot) in used.iter().enumerate().zip(&mut slots) {
            if self.state.shares.members()[at].throttled_by().is_some() {
                continue;
            }
            slot.ran = Ns::new(length.get() * u64::from(*part) / 1000);
            slot.runs = u32::from(*part != 0);
            totals.idle = totals.idle.saturating_sub(slot.ran);
            totals.ran = totals.ran.saturating_add(slot.ran);
        }
        if self.wakes {
            self.state.shares.wake_all();
        }
        let ended = Ended {
            totals,
            slots: &slots,
            used: (0..slots.len()).filter(|at| slots[*at].runs != 0),
            strata: None,
            alone: false,
            copies: None,
        };
        let waits = std::iter::empty();
        self.state.end_phase(self.now, ended, &mut Some, waits);
    }

    /// What must not depend on which processes sleep.
    fn shown(&self) -> Vec<String> {
        let members = self.state.shares.members().iter();
        members
            .map(|member| {
                let state = self.state.shares.state_of(member.group()).expect("a state");
                let (vtime, throttled) = (state.vtime, state.throttled);
                let account = member.account_at(self.now);
                format!(
                    "{vtime:?} {throttled} {:?} {account:?}",
                    member.throttled_by()
                )
            })
            .collect()
    }

    /// Means of some processes, which fade while they sleep.
    fn means(&self) -> Vec<u32> {
        let members = self.state.shares.members().iter();
        let until = self.state.engine.booked_until(self.now);
        members
            .flat_map(|member| {
                let means = member.means(until, Ns::from_ms(1));
                [
                    means.busy_2s,
                    means.busy_30s,
                    means.waited_2s,
                    means.waited_30s,
                ]
            })
            .collect()
    }
}

proptest! {
    #[test]
    fn sleep_changes_no_decision_and_no_account(
        spells in prop::collection::vec(spell(), 1..12),
        policy in prop_oneof![
            Just(PolicyKind::Event), Just(PolicyKind::EventCl), Just(PolicyKind::None)
        ],
        group_by in prop_oneof![Just(GroupBy::Process), Just(GroupBy::User)],
    ) {
        let mut sleepy = Books::new(policy, group_by, false);
        let mut wakeful = Books::new(policy, group_by, true);
        for spell in spells {
            for _ in 0..spell.phases {
                sleepy.period(&spell.used);
                wakeful.period(&spell.used);
                prop_assert_eq!(sleepy.shown(), wakeful.shown());
                prop_assert_eq!(sleepy.state.engine.last_fallback(), None);
                for (one, other) in sleepy.means().into_iter().zip(wakeful.means()) {
                    prop_assert!(one.abs_diff(other) <= MEANS_PPM, "{} {}", one, other);
                }
            }
        }
    }
}

/// The property above is not empty: processes do sleep.
#[test]
fn processes_of_a_long_spell_do_sleep() {
    let mut books = Books::new(PolicyKind::Event, GroupBy::Process, false);
    for _ in 0..QUIET {
        books.period(&[100, 0, 0, 0, 0, 0]);
    }
    // Two are under the limit of their user.
    assert_eq!(books.state.shares.awake().count(), 3);
}
