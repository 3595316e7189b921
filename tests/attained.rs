// SPDX-License-Identifier: GPL-2.0

//! Property: however processes come, use the GPU and end, no user loses what it has attained under
//! a policy that goes by it, and what is kept of those that have ended is bounded.

use loga::account::{PhaseTotals, Slot};
use loga::engine::{Config, Engine};
use loga::gpu::{Ended, GpuState};
use loga::ids::ClientId;
use loga::policies::PolicyKind;
use loga::share::{Entry, Group, GroupBy, Identity, Member, Row, Settings, Shares, Totals};
use loga::units::Ns;
use loga::Vectors;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

const USERS: u32 = 3;
/// Processes at a time.
const PROCESSES: usize = 6;
/// Groups: enough for any that owe something, and too few.
const ROOMS: [usize; 2] = [64, PROCESSES];

#[derive(Clone, Debug)]
enum Step {
    /// A process of this user comes.
    Join(u32),
    /// The process at this position ends.
    Leave(usize),
    /// A period, in which processes used the GPU for so many microseconds.
    Use([u16; PROCESSES]),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..USERS).prop_map(Step::Join),
        2 => (0..PROCESSES).prop_map(Step::Leave),
        4 => prop::array::uniform(prop_oneof![Just(0u16), 1u16..50_000]).prop_map(Step::Use),
    ];
    prop::collection::vec(step, 1..60)
}

/// The books of a GPU, and what each process and each user attained.
struct Books {
    state: GpuState<Vectors>,
    group_by: GroupBy,
    now: Ns,
    next: u64,
    /// By position.
    processes: Vec<(u32, u64)>,
    /// With what processes had that have ended.
    users: [u64; USERS as usize],
}

impl Books {
    fn new(group_by: GroupBy, room: usize) -> Self {
        let config = Config {
            policy: PolicyKind::LasLevels,
            group_by,
            ..Config::paper()
        };
        let state = GpuState::new(
            Engine::new(config, 1).expect("in range"),
            Shares::new(
                vec![Member::default(); PROCESSES],
                vec![Group::default(); room],
                vec![Default::default(); room],
                Totals::new(vec![Row::default(); 16]),
                group_by,
            ),
            Settings::new(vec![Entry::default(); 4]),
        );
        Self {
            state,
            group_by,
            now: Ns::from_ms(1),
            next: 1,
            processes: Vec::new(),
            users: [0; USERS as usize],
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Join(user) if self.processes.len() < PROCESSES => {
                let identity = Identity {
                    process: self.next,
                    user: *user,
                    ..Identity::default()
                };
                let joined = self.state.join(ClientId::new(self.next), identity);
                assert_eq!(joined, Ok(self.processes.len()));
                self.next += 1;
                // What its user has, which is the greatest of its processes.
                self.processes.push((*user, self.users[*user as usize]));
            }
            Step::Leave(at) if *at < self.processes.len() => {
                self.state.leave(*at);
                self.processes.remove(*at);
            }
            Step::Use(times) => self.period(times),
            _ => {}
        }
    }

    fn period(&mut self, times: &[u16; PROCESSES]) {
        let ran = |us: &u16| Slot {
            ran: Ns::from_us((*us).into()),
            runs: 1,
            ..Slot::default()
        };
        let count = self.processes.len();
        let slots: Vec<_> = times.iter().take(count).map(ran).collect();
        let ran = Ns::new(slots.iter().map(|slot| slot.ran.get()).sum());
        let length = ran.saturating_add(Ns::from_us(1));
        let ended = Ended {
            totals: PhaseTotals {
                length,
                ran,
                idle: Ns::from_us(1),
                ..PhaseTotals::default()
            },
            slots: &slots,
            used: 0..count,
            strata: None,
            alone: false,
            copies: None,
        };
        self.now = self.now.saturating_add(length);
        let waits = std::iter::empty();
        self.state
            .end_phase(self.now, ended, &mut |slot: usize| Some(slot), waits);
        for ((user, own), slot) in self.processes.iter_mut().zip(&slots) {
            let user = &mut self.users[*user as usize];
            *own += slot.ran.get();
            *user = match self.group_by {
                GroupBy::Process => (*user).max(*own),
                _ => *user + slot.ran.get(),
            };
        }
    }

    fn check(&self, exact: bool) -> Result<(), TestCaseError> {
        let shares = &self.state.shares;
        let attained = |group: usize| {
            let state = shares.state_of(group).expect("a group");
            state.kept.attained().past.get()
        };
        for (member, (user, own)) in shares.members().iter().zip(&self.processes) {
            let wanted = match self.group_by {
                GroupBy::Process => *own,
                _ => self.users[*user as usize],
            };
            if exact {
                prop_assert_eq!(attained(member.group()), wanted);
            } else {
                prop_assert!(attained(member.group()) <= wanted);
            }
        }
        let t_sys = self.state.engine.start_vtime();
        let mut remembered = Vec::new();
        for (at, group) in shares.groups().iter().enumerate() {
            let vtime = shares.states().iter().find(|one| one.id == group.id());
            let owes = vtime.is_some_and(|state| state.vtime > t_sys);
            prop_assert!(group.members() > 0 || owes || group.is_remembered());
            prop_assert!(group.members() == 0 || !group.is_remembered());
            if group.is_remembered() {
                prop_assert!(attained(at) > 0);
                remembered.push(attained(at));
            }
        }
        prop_assert!(remembered.len() <= USERS as usize, "{remembered:?}");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn users_keep_what_they_attained_whatever_their_processes_do(
        steps in steps(),
        by_user in any::<bool>(),
        scarce in any::<bool>(),
    ) {
        let group_by = [GroupBy::Process, GroupBy::User][usize::from(by_user)];
        let mut books = Books::new(group_by, ROOMS[usize::from(scarce)]);
        for step in &steps {
            books.step(step);
            books.check(!scarce)?;
        }
    }
}
