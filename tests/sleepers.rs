// SPDX-License-Identifier: GPL-2.0

//! Property: that processes sleep which do nothing changes no decision and no account. Two sets
//! of books see the same phases; in one of them everybody is woken before each decision.

use loga::account::{Accounts, PhaseTotals, Slot};
use loga::engine::{Action, ClientState, Config, Engine, Wake};
use loga::ids::ClientId;
use loga::policies::PolicyKind;
use loga::share::{
    Change, Entry, Group, GroupBy, Member, Period, Row, Settings, Shares, Subject, Totals, Who,
    QUIET,
};
use loga::units::Ns;
use loga::Vectors;
use proptest::prelude::*;

/// Processes, of three users.
const PROCESSES: u64 = 6;

/// What the processes use in so many phases in a row, in parts of 1000.
#[derive(Clone, Debug)]
struct Spell {
    phases: u8,
    used: Vec<u16>,
}

fn spell() -> impl Strategy<Value = Spell> {
    let part = prop_oneof![3 => Just(0u16), 1 => 1u16..160];
    let phases = prop_oneof![1u8..4, Just(QUIET - 1), Just(QUIET + 3)];
    let used = prop::collection::vec(part, PROCESSES as usize);
    (phases, used).prop_map(|(phases, used)| Spell { phases, used })
}

/// The books of a GPU, as the main thread keeps them.
struct Books {
    engine: Engine,
    shares: Shares<Vectors>,
    settings: Settings<Vectors>,
    totals: Totals<Vectors>,
    now: Ns,
    /// Nobody may sleep.
    wakes: bool,
}

impl Books {
    fn new(policy: PolicyKind, group_by: GroupBy, wakes: bool) -> Self {
        let config = Config {
            policy,
            enforce: true,
            ..Config::default()
        };
        let mut settings = Settings::<Vectors>::new(vec![Entry::default(); 4]);
        let fifth = Change {
            limit: Some(20),
            ..Change::default()
        };
        let limited = settings.set(Subject::User(2), None, &fifth);
        limited.expect("in range");
        let mut books = Self {
            engine: Engine::new(config, 1).expect("in range"),
            shares: Shares::new(
                vec![Member::default(); PROCESSES as usize],
                vec![Group::default(); 2 * PROCESSES as usize],
                vec![ClientState::default(); 2 * PROCESSES as usize],
                group_by,
            ),
            settings,
            totals: Totals::<Vectors>::new(vec![Row::default(); 8]),
            now: Ns::from_ms(1),
            wakes,
        };
        for id in 1..=PROCESSES {
            let who = Who {
                process: id,
                user: (id % 3) as u32,
                ..Who::default()
            };
            let t_sys = books.engine.start_vtime();
            let joined = books
                .shares
                .join(ClientId::new(id), who, &books.settings, t_sys);
            joined.expect("room");
        }
        books.engine.channels_changed(books.now, 12);
        books
    }

    fn pass_until(&mut self, wanted: Action) {
        while self.engine.wake(self.now, Wake::ChannelsChanged) != wanted {
            let next = self.engine.next_deadline().expect("channels");
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
        self.shares.begin();
        if self.wakes {
            self.shares.wake_all();
        }
        for (at, part) in used.iter().enumerate() {
            let held = Ns::new(length.get() * u64::from(*part) / 1000);
            let is_held = self.shares.members()[at].hold().is_some();
            if is_held || held == Ns::ZERO {
                continue;
            }
            assert!(self.shares.charge_at(at, &Slot { held, runs: 1 }));
            totals.idle = totals.idle.saturating_sub(held);
            totals.held = totals.held.saturating_add(held);
        }
        let span = self.engine.span(&totals);
        totals.apart = self.shares.gather(&self.settings, totals.length, span);
        self.engine.decide(&totals, self.shares.states_mut());
        let stats = self.engine.stats();
        let period = Period {
            now: self.now,
            poll: totals.length,
            span: stats.last_poll.saturating_add(stats.last_nonpoll),
            next: self.engine.planned(),
            t_sys: self.engine.start_vtime(),
            enforce: true,
            sparse: None,
        };
        self.shares
            .book(&mut self.settings, &mut self.totals, &period);
    }

    /// What must not depend on who sleeps.
    fn shown(&self) -> Vec<String> {
        let members = self.shares.members().iter();
        members
            .map(|member| {
                let state = self.shares.state_of(member.group()).expect("a state");
                let (vtime, held) = (state.vtime, state.held);
                let account = member.account_at(self.now);
                format!("{vtime:?} {held} {:?} {account:?}", member.hold())
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
                prop_assert_eq!(sleepy.engine.last_fallback(), None);
            }
        }
    }
}

/// That the property above is about something.
#[test]
fn processes_of_a_long_spell_do_sleep() {
    let mut books = Books::new(PolicyKind::Event, GroupBy::Process, false);
    for _ in 0..QUIET {
        books.period(&[100, 0, 0, 0, 0, 0]);
    }
    // Two are under the limit of their user.
    assert_eq!(books.shares.awake().count(), 3);
}
