// SPDX-License-Identifier: GPL-2.0

//! `[double]` Sums that are kept, over random histories, compared with summing anew. On the host only:
//! the tables do not fit on the stack of a kernel thread.

use super::*;
use crate::account::{Accounts, EngineKind, Slot};
use crate::ids::{ClientId, GroupId};
use crate::policies::ClientState;
use crate::random::XorShift;
use crate::units::{Ns, VTime};
use crate::Vectors;
use std::collections::BTreeMap;
use std::vec;

/// Processes at one time.
const ROOM: usize = 12;
const GROUPINGS: [(GroupBy, u32); 5] = [
    (GroupBy::Process, 0),
    (GroupBy::User, 0),
    (GroupBy::Cgroup, 0),
    (GroupBy::Cgroup, 1),
    (GroupBy::Cgroup, 2),
];

/// GPU time of each group, user and cgroup, summed by the test.
#[derive(Default)]
struct Expected {
    groups: BTreeMap<GroupId, u64>,
    users: BTreeMap<u64, u64>,
    cgroups: BTreeMap<u64, u64>,
}

struct World {
    shares: Shares<Vectors>,
    settings: Settings<Vectors>,
    random: XorShift,
    now: Ns,
    next: u64,
    by: (GroupBy, u32),
    expected: Expected,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = XorShift::new(seed);
        let by = GROUPINGS[random.bits16() as usize % GROUPINGS.len()];
        let mut shares = Shares::new(
            vec![Member::default(); ROOM],
            vec![Group::default(); ROOM + 3],
            vec![ClientState::default(); ROOM + 3],
            Totals::new(vec![Row::default(); 64]),
            by.0,
        );
        shares.begin_grouping(by.0, by.1);
        Self {
            shares,
            settings: Settings::new(vec![Entry::default(); 16]),
            random,
            now: Ns::ZERO,
            next: 1,
            by,
            expected: Expected::default(),
        }
    }

    fn below(&mut self, count: usize) -> usize {
        self.random.bits16() as usize % count.max(1)
    }

    /// One of a few users, in one of the few cgroups at levels 1 and 2.
    fn identity(&mut self, process: u64) -> Identity {
        let (upper, lower) = (10 + self.below(2) as u64, self.below(3) as u64);
        let mut identity = Identity {
            process,
            user: 100 + self.below(3) as u32,
            cgroup: if lower == 0 {
                upper
            } else {
                10 * upper + lower
            },
            ..Identity::default()
        };
        identity.above[0] = 1;
        if lower != 0 {
            identity.above[1] = upper;
        }
        identity
    }

    /// The time that the clock of the policy shows.
    fn t_sys(&self) -> VTime {
        VTime::new(self.now.get() / 8)
    }

    fn change(&mut self) -> Change {
        match self.below(4) {
            0 => Change::weight(1 + self.below(100) as u32),
            1 => Change::class(Class::Idle),
            _ => Change::limit(1 + self.below(100) as u32),
        }
    }

    fn subject(&mut self) -> Subject {
        match self.below(3) {
            0 => Subject::Process(1 + self.below(self.next as usize) as u64),
            1 => Subject::User(100 + self.below(3) as u32),
            _ => Subject::Cgroup([10, 11, 101, 112][self.below(4)]),
        }
    }

    fn decide(&mut self) {
        let before: BTreeMap<_, _> = received(&self.shares).collect();
        let span = Ns::from_ms(60);
        self.now = self.now.saturating_add(span);
        let period = Period {
            now: self.now,
            poll: Ns::from_ms(10),
            span,
            next: span,
            t_sys: self.t_sys(),
            enforce: true,
            ..Period::default()
        };
        self.shares.gather(&self.settings, period.poll, span);
        for (at, state) in self.shares.states_mut().iter_mut().enumerate() {
            state.throttled = (self.next as usize + at) % 5 == 0;
        }
        // Which groups they are in while it is booked: groups without members go after it.
        let ids: BTreeMap<_, _> = (self.shares.members().iter())
            .map(|member| (member.id(), self.shares.groups()[member.group()].id()))
            .collect();
        self.shares.book(&mut self.settings, &period);
        for member in self.shares.members() {
            let got = member.account().received.get() - before[&member.id()];
            *self.expected.groups.entry(ids[&member.id()]).or_default() += got;
            let identity = member.identity();
            *self.expected.users.entry(identity.user.into()).or_default() += got;
            *self.expected.cgroups.entry(identity.cgroup).or_default() += got;
        }
    }

    fn step(&mut self) {
        let count = self.shares.members().len();
        let at = self.below(count);
        let t_sys = self.t_sys();
        match self.below(16) {
            0 | 1 if self.shares.has_room() => {
                let (id, identity) = (self.next, self.identity(self.next));
                self.next += 1;
                let joined = self
                    .shares
                    .join(ClientId::new(id), identity, &self.settings, t_sys);
                assert!(joined.is_ok());
            }
            2 if count > 0 => self.shares.leave(at, t_sys),
            3..=5 if count > 0 => {
                let process = self.shares.members()[at].identity().process;
                let identity = self.identity(process);
                // Without room it stays in its group.
                let _ = self.shares.rejoin(at, identity, &self.settings, t_sys);
            }
            6 if count > 0 => {
                let identity = *self.shares.members()[at].identity();
                let change = self.change();
                let lowered = match self.below(3) {
                    0 => self.settings.clear_lowered(&identity),
                    _ => self.settings.lower(&identity, &change),
                };
                if lowered.is_ok() {
                    self.shares.follow_lowered(at, &self.settings);
                }
            }
            7 => {
                let (subject, change) = (self.subject(), self.change());
                let _ = match self.below(3) {
                    0 => self.settings.clear(subject),
                    _ => self.settings.set(subject, None, &change),
                };
            }
            8 if self.below(8) == 0 => {
                let before = self.by;
                self.by = GROUPINGS[self.below(GROUPINGS.len())];
                if self.by == before {
                    return;
                }
                let (by, depth) = self.by;
                self.shares.set_grouping(by, depth, &self.settings, t_sys);
                // Groups are formed anew, of what their processes got.
                self.expected.groups.clear();
                for member in self.shares.members() {
                    let id = self.shares.groups()[member.group()].id();
                    let got = member.account().received.get();
                    *self.expected.groups.entry(id).or_default() += got;
                }
            }
            9 => self.shares.add_up(),
            10 => (0..40).for_each(|_| self.decide()),
            _ => {
                let used = self.below(3);
                for _ in 0..used.min(count) {
                    let (at, us) = (self.below(count), self.below(3000) as u64);
                    let slot = Slot {
                        ran: Ns::from_us(us),
                        runs: 1,
                        ..Slot::default()
                    };
                    self.shares.charge_at(at, EngineKind::Compute, &slot);
                }
                self.decide();
            }
        }
    }

    /// Every kept sum is what summing anew gives.
    fn check(&mut self) {
        let (shares, settings) = (&self.shares, &self.settings);
        let members = shares.members();
        let mut awake: vec::Vec<_> = shares.awake().collect();
        awake.sort_unstable();
        let is_awake = |at: &usize| members[*at].activity.awake;
        assert!((0..members.len()).filter(is_awake).eq(awake));
        let is_current = shares.generation() == settings.generation();
        for member in members {
            let asleep = !member.activity.awake;
            assert!(!asleep || member.recent() == Account::default());
            if is_current {
                let subject = settings.group_of(&member.identity, self.by.0, self.by.1);
                assert_eq!(member.resolved, settings.resolve(&member.identity));
                assert_eq!(shares.groups()[member.group].subject, subject);
                assert!(!asleep || member.resolved.limit.is_none());
            }
        }
        for (at, group) in shares.groups().iter().enumerate() {
            let own = || members.iter().filter(|member| member.group == at);
            let state = shares.states()[group.state_index];
            assert_eq!(state.id, group.id);
            assert_eq!(group.members as usize, own().count());
            let awake = own().filter(|member| member.activity.awake).count();
            assert_eq!(group.awake as usize, awake);
            assert_eq!(group.caps, own().map(|member| member.resolved.cap()).sum());
            let used: u64 = own().map(|member| member.used_in_group().get()).sum();
            assert_eq!(group.used.get(), used);
            let mut got = group.account;
            own().for_each(|member| got.add(&member.recent()));
            let expected = self.expected.groups.get(&group.id).copied();
            assert_eq!(got.received.get(), expected.unwrap_or(0));
            if is_current {
                let (subject, identity) = (group.subject, &group.identity);
                assert_eq!(state.weight, settings.weight_of(subject, identity));
                assert_eq!(group.limit, settings.limit_of(subject, identity));
            }
        }
        let recent = |kind: Kind| {
            let mut got: BTreeMap<u64, u64> = BTreeMap::new();
            for member in members {
                let sum = got.entry(kind.key(&member.identity)).or_default();
                *sum += member.recent().received.get();
            }
            (kind, got)
        };
        let mut rows = vec![Row::default(); 64];
        for (kind, mut got) in [Kind::User, Kind::Cgroup].map(recent) {
            let there = self.shares.totals_as_added().read(kind, false, &mut rows);
            for row in &rows[..there] {
                *got.entry(row.key.unwrap_or(0)).or_default() += row.account.received.get();
            }
            got.retain(|_, sum| *sum != 0);
            let mut expected = match kind {
                Kind::User => self.expected.users.clone(),
                Kind::Cgroup => self.expected.cgroups.clone(),
            };
            expected.retain(|_, sum| *sum != 0);
            assert_eq!(got, expected);
        }
    }
}

/// What each process received.
fn received(shares: &Shares<Vectors>) -> impl Iterator<Item = (ClientId, u64)> + '_ {
    let members = shares.members().iter();
    members.map(|member| (member.id(), member.account().received.get()))
}

#[test]
fn sums_that_are_kept_are_those_of_summing_anew() {
    for seed in 1..=60 {
        let mut world = World::new(seed);
        for _ in 0..150 {
            world.step();
            world.check();
        }
    }
}
