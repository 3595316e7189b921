// SPDX-License-Identifier: GPL-2.0

//! A GPU on which a set of clients submits, by the module's own code.

use super::sets::{Habit, Member, Set, MOST_PERIOD};
use loga::engaged::{
    reserve_of, Client, Prio, Record, Row, SchedulingParameters, Setting, Specs, Step, Submissions,
    Terms, Void, BACKGROUND, RECORDS, SPECS, SUBMISSION,
};
use loga::policies::dispatch::DispatcherKind;
use loga::share::Subject;
use loga::units::Ns;
use loga::Vectors;

/// Events between two changes that are simulated.
const MOST_EVENTS: u32 = 20_000;

/// What a client is doing.
struct Actor {
    member: Option<Member>,
    at: usize,
    /// Whether it is admitted.
    admitted: bool,
    other_us: (u64, u64),
    /// Submissions of its job that are not granted yet, and those in flight with their lengths.
    left: u64,
    flights: Vec<Ns>,
    draws: usize,
    /// Of its job: when it came, and what of its capacity it may use.
    came: Ns,
    budget: Ns,
    spent: Ns,
    /// From when on its jobs are judged: a new reserve begins when what others before it have used
    /// ahead is paid for, after a period of theirs at most.
    judged: Ns,
    next: Option<Ns>,
    voids: u64,
    jobs: u64,
}

/// A GPU and its clients.
pub(super) struct World {
    submissions: Submissions<Vectors>,
    specs: Specs<Vec<Option<Row>>>,
    actors: Vec<Actor>,
    costs: Vec<u64>,
    drawn: usize,
    now: Ns,
    timer: Option<Ns>,
    /// Of what is on the engine: its client, and its end.
    running: Option<(usize, Ns)>,
    /// Whether an assumption of admission was broken by somebody.
    broken: bool,
    fault: Option<String>,
}

impl World {
    pub(super) fn new(set: &Set) -> Self {
        let vacant = || Client::vacant(vec![Record::default(); RECORDS]);
        let count = set.members.len() + set.others.len();
        let clients = (0..count).map(|_| vacant()).collect();
        let submissions = Submissions::new(DispatcherKind::Edf, clients, vec![None; SPECS + 1]);
        let members = set.members.iter().cloned().map(Some);
        let others = set.others.iter().copied();
        let all = members
            .map(|member| (member, (0, 0)))
            .chain(others.map(|other| (None, other)));
        let actors = all.enumerate().map(|(at, (member, other_us))| Actor {
            next: Some(member.as_ref().map_or(Ns::ZERO, |member| {
                Ns::from_us(member.phase_us % member.period_us)
            })),
            member,
            at,
            admitted: false,
            other_us,
            left: 0,
            flights: Vec::new(),
            draws: 0,
            came: Ns::ZERO,
            budget: Ns::ZERO,
            spent: Ns::ZERO,
            judged: Ns::ZERO,
            voids: 0,
            jobs: 0,
        });
        let mut world = Self {
            submissions,
            specs: Specs::new(vec![None; SPECS]),
            actors: actors.collect(),
            costs: set.costs.clone(),
            drawn: 0,
            now: Ns::ZERO,
            timer: None,
            running: None,
            broken: false,
            fault: None,
        };
        for _ in 0..count {
            world.submissions.join(Setting {
                prio: Prio::NORMAL,
                ..Setting::default()
            });
        }
        for at in 0..count {
            let spec = world.actors[at].member.as_ref().map(Member::spec);
            if let Some(spec) = spec {
                world.ask(at, spec);
            }
        }
        world
    }

    /// Asks for a reserve. Returns whether it is admitted.
    fn ask(&mut self, at: usize, spec: SchedulingParameters) -> bool {
        let subject = Subject::User(u32::try_from(at).unwrap());
        let before = self
            .specs
            .find(subject)
            .and_then(|at| self.specs.get(at))
            .copied();
        let mut longest = [Ns::ZERO; SPECS + 1];
        for actor in &self.actors {
            let seen = match &actor.member {
                None => Ns::from_us(actor.other_us.0),
                // A client that is not admitted is one without a reserve.
                Some(member) => {
                    let depth = if member.ht { 4 } else { 1 };
                    let seen = self
                        .submissions
                        .client(actor.at)
                        .unwrap()
                        .history()
                        .longest();
                    seen.max(member.longest()).saturating_mul(depth)
                }
            };
            let row = match actor.admitted {
                true => self
                    .specs
                    .find(Subject::User(u32::try_from(actor.at).unwrap())),
                false => None,
            };
            let row = if actor.at == at {
                self.specs.find(subject)
            } else {
                row
            };
            let index = row.unwrap_or(SPECS);
            longest[index] = longest[index].max(seen);
        }
        self.specs.set(Row::new(subject, spec)).unwrap();
        let admitted = self.specs.admit(subject, &longest).is_ok();
        if admitted {
            self.actors[at].admitted = true;
        } else {
            match before {
                Some(row) => self.specs.set(row).unwrap(),
                None => self.specs.clear(subject).unwrap(),
            }
        }
        self.apply_specs();
        admitted
    }

    fn clear(&mut self, at: usize) {
        let subject = Subject::User(u32::try_from(at).unwrap());
        if self.specs.clear(subject).is_ok() {
            self.actors[at].admitted = false;
            self.apply_specs();
        }
    }

    /// As the module does it.
    fn apply_specs(&mut self) {
        for (row, bound) in self.specs.bounds().into_iter().enumerate() {
            let terms = self.specs.get(row).and_then(|row| row.spec.reserve);
            self.submissions
                .set_reserve(self.now, reserve_of(row), terms);
            self.submissions.set_bound(reserve_of(row), bound);
        }
        for at in 0..self.actors.len() {
            let subject = Subject::User(u32::try_from(at).unwrap());
            let row = self.specs.find(subject);
            let mode = row
                .and_then(|row| self.specs.get(row))
                .map(|row| row.spec.mode);
            let setting = Setting {
                prio: Prio::NORMAL,
                mode: mode.unwrap_or_default(),
                reserve: row.map_or(BACKGROUND, reserve_of),
            };
            if *self.submissions.client(at).unwrap().setting() != setting {
                let step = self.submissions.set(self.now, at, setting);
                self.follow(step);
            }
        }
        let step = self.submissions.timer(self.now);
        self.follow(step);
    }

    /// The terms of a client whose deadlines are promised.
    fn firm(&self, at: usize) -> Option<Terms> {
        let terms = self.submissions.client(at)?.setting().reserve;
        let terms = *self
            .submissions
            .reserve(terms)
            .filter(|_| terms != BACKGROUND)?
            .terms();
        terms.is_firm().then_some(terms)
    }

    /// How long the next submission of a client lasts.
    fn draw(&mut self, at: usize) -> Ns {
        let actor = &mut self.actors[at];
        actor.draws += 1;
        let Some(member) = &actor.member else {
            let (seen, more) = actor.other_us;
            // The longer ones come seldom.
            let longer = actor.draws % 7 == 0;
            let us = if longer {
                seen + seen * more / 100
            } else {
                seen
            };
            return Ns::from_us(us.max(1));
        };
        let pct = member.lengths[actor.draws % member.lengths.len()];
        let longest = member.longest();
        let length = Ns::new((longest.get() / 100 * pct).max(1_000));
        match member.habit {
            Habit::Long => Ns::new(length.get() * 3),
            Habit::Greedy => length,
            Habit::Honest => {
                let length = length.min(actor.budget);
                actor.budget = actor.budget.saturating_sub(length);
                length
            }
        }
    }

    fn follow(&mut self, step: Step) {
        self.timer = step.timer;
        if let Some(miss) = step.miss.filter(|miss| miss.void.is_none()) {
            self.fault = Some(format!(
                "a promised deadline is missed: {miss:?} at {:?}",
                self.now
            ));
        }
        let Some(grant) = step.grant else { return };
        let at = grant.client;
        let length = self.draw(at);
        let cost = self.costs[self.drawn % self.costs.len()];
        self.drawn += 1;
        let begins = Ns::new(SUBMISSION.get() / 100 * cost);
        if self.running.is_none() {
            let end = self.now.saturating_add(begins).saturating_add(length);
            self.running = Some((at, end));
        }
        self.actors[at].flights.push(length);
        let actor = &mut self.actors[at];
        actor.left = actor.left.saturating_sub(1);
        // Its thread stores again at once.
        if actor.left > 0 && actor.budget > Ns::ZERO {
            self.arrive(at);
        }
    }

    fn arrive(&mut self, at: usize) {
        let step = self.submissions.arrive(self.now, at);
        self.follow(step);
    }

    /// A client begins a job.
    fn begin(&mut self, at: usize) {
        let actor = &mut self.actors[at];
        actor.next = None;
        (actor.came, actor.spent) = (self.now, Ns::ZERO);
        (actor.left, actor.budget) = match &actor.member {
            Some(member) if member.habit == Habit::Honest => (member.commands, member.capacity()),
            _ => (u64::MAX, Ns::new(u64::MAX)),
        };
        self.actors[at].voids = self.void(at);
        self.arrive(at);
    }

    /// Misses of a client that were void, of all causes.
    fn void(&self, at: usize) -> u64 {
        let reserve = self
            .submissions
            .client(at)
            .map_or(0, |client| client.setting().reserve);
        let misses = self
            .submissions
            .reserve(reserve)
            .map(|reserve| reserve.served().misses);
        misses.map_or(0, |misses| {
            Void::ALL.iter().map(|why| misses.void(*why)).sum()
        })
    }

    /// Those of its own cause.
    fn own(&self, at: usize) -> u64 {
        let reserve = self
            .submissions
            .client(at)
            .map_or(0, |client| client.setting().reserve);
        let reserve = self.submissions.reserve(reserve);
        reserve.map_or(0, |reserve| reserve.served().misses.void(Void::Own))
    }

    /// What is on the engine ends.
    fn complete(&mut self) {
        let Some((at, _)) = self.running.take() else {
            return;
        };
        let used = self.actors[at].flights.remove(0);
        self.actors[at].spent = self.actors[at].spent.saturating_add(used);
        let declared = self.firm(at).and_then(|terms| terms.longest);
        self.broken |= declared.is_some_and(|longest| used > longest);
        if let Some(length) = self.actors[at].flights.first() {
            self.running = Some((at, self.now.saturating_add(*length)));
        }
        let exceeded = self.submissions.counters().exceeded;
        let step = self.submissions.completed(self.now, at, used);
        self.follow(step);
        self.broken |= self.submissions.counters().exceeded > exceeded;
        let (now, void, firm) = (self.now, self.void(at), self.firm(at));
        let actor = &mut self.actors[at];
        let Some(member) = &actor.member else { return };
        let done = actor.flights.is_empty() && !self.submissions.client(at).unwrap().waits();
        if member.habit != Habit::Honest || !done {
            return;
        }
        actor.jobs += 1;
        let due = actor.came.saturating_add(member.deadline());
        let again = actor.came.saturating_add(member.period());
        let pause = member.pauses_us[usize::try_from(actor.jobs).unwrap() % member.pauses_us.len()];
        // One whose terms were changed meanwhile has used more than its capacity.
        let periods = actor.spent.get().div_ceil(member.capacity().get());
        let changed = actor.voids == u64::MAX;
        let rest = member
            .period()
            .saturating_mul(if changed { periods + 1 } else { 0 });
        let next = again.max(now.saturating_add(rest));
        actor.next = Some(next.saturating_add(Ns::from_us(pause)));
        // One that needs several periods for a submission is judged by the module only.
        let fits = member.longest() <= member.capacity();
        let judged = firm.is_some() && fits && actor.came >= actor.judged;
        if judged && now > due && void == actor.voids {
            self.fault = Some(format!(
                "job of {at} is late by {:?} at {now:?}",
                now.saturating_sub(due)
            ));
        }
    }

    /// The next event up to this time, if there is one.
    fn advance(&mut self, until: Ns) -> bool {
        let comes = self
            .actors
            .iter()
            .filter_map(|actor| actor.next.map(|next| (next, actor.at)));
        let comes = comes.min();
        let ends = self.running.map(|(_, end)| end);
        let all = [comes.map(|(next, _)| next), ends, self.timer];
        let Some(next) = all
            .into_iter()
            .flatten()
            .min()
            .filter(|next| *next <= until)
        else {
            return false;
        };
        self.now = self.now.max(next);
        if ends == Some(next) {
            self.complete();
        } else if let Some((_, at)) = comes.filter(|(came, _)| *came == next) {
            self.begin(at);
        } else {
            let step = self.submissions.timer(self.now);
            self.follow(step);
        }
        true
    }

    pub(super) fn run(mut self, set: &Set) -> Result<(), String> {
        let mut changes = set.changes.clone();
        changes.sort_unstable();
        let end = Ns::from_ms(400);
        for (ms, at, clears, pct) in changes.into_iter().chain([(400, 0, false, 0)]) {
            let until = Ns::from_ms(ms).min(end);
            let mut events = 0;
            while self.fault.is_none() && events < MOST_EVENTS && self.advance(until) {
                events += 1;
            }
            if events == MOST_EVENTS {
                // Commands of a microsecond: what was seen counts.
                break;
            }
            self.now = self.now.max(until);
            let at = at % set.members.len();
            let Some(mut member) = self.actors[at].member.clone().filter(|_| pct > 0) else {
                continue;
            };
            if clears {
                self.clear(at);
            } else {
                member.capacity_pct = pct;
            }
            // A job under way has other terms now.
            self.actors[at].voids = u64::MAX;
            self.actors[at].judged = self.now.saturating_add(MOST_PERIOD);
            if self.ask(at, member.spec()) {
                self.actors[at].member = Some(member);
            }
        }
        // Who uses more than it has left breaks its own promise only.
        let void: u64 = (0..set.members.len())
            .map(|at| self.void(at) - self.own(at))
            .sum();
        match self.fault {
            Some(fault) => Err(fault),
            None if void > 0 && !self.broken => Err(format!("{void} void, and nothing was broken")),
            None => Ok(()),
        }
    }
}
