// SPDX-License-Identifier: GPL-2.0

//! A GPU on which a set of clients submits, by the module's own code.

use super::bucket::{Bucket, CATCHES_UP};
use super::sets::{Asked, Change, Fate, Habit, Member, Other, Set};
use loga::engaged::{
    reserve_of, Client, Kind, Prio, Record, Row, Setting, Specs, Step, Submissions, Terms, Void,
    BACKGROUND, RECORDS, SPECS, SUBMISSION,
};
use loga::fair::mul_div;
use loga::policies::dispatch::DispatcherKind;
use loga::share::Subject;
use loga::units::Ns;
use loga::Vectors;

/// Events between two changes that are simulated.
const MOST_EVENTS: u32 = 20_000;
/// How long a set is simulated.
const LENGTH: Ns = Ns::from_ms(400);

/// A submission that was granted.
#[derive(Clone, Copy)]
struct Flight {
    length: Ns,
    /// Its client dies when it has run for so long.
    dies: Option<Ns>,
    /// It was granted by a hard reserve: what a soft one grants may be more than is promised, also if
    /// it is hard when that ends.
    hard: bool,
}

/// What a client is doing.
struct Actor {
    member: Option<Member>,
    other: Option<Other>,
    at: usize,
    /// The member whose reserve it shares, itself if it has its own.
    group: usize,
    present: bool,
    /// Submissions of its job that are not granted yet, and those in flight.
    left: u64,
    flights: Vec<Flight>,
    /// When its newest grant comes back unused, and when it was made.
    returns: Option<(Ns, Ns)>,
    draws: usize,
    grants: usize,
    /// Of its job: when it came, and what of its capacity it may use.
    came: Ns,
    budget: Ns,
    spent: Ns,
    next: Option<Ns>,
    /// When it began to ask, and what it has used since.
    began: Option<Ns>,
    used: Ns,
    /// Void misses of its reserve when its job came; nothing if its terms changed since.
    voids: Option<u64>,
    jobs: u64,
}

/// What a reserve is, and was.
struct Group {
    asked: Asked,
    admitted: bool,
    shared: bool,
    /// Whether jobs are judged, not only submissions: a reserve that begins when what was used ahead is
    /// paid for may never have its capacity at the begin of a job.
    judged: bool,
    bucket: Bucket,
}

/// What is done to a reserve.
enum Act {
    Clear,
    Set(fn(&mut Asked, u64), u64),
    Kind(Kind, bool),
}

/// What is on the engine.
#[derive(Clone, Copy)]
struct Running {
    at: usize,
    since: Ns,
    end: Ns,
}

/// A GPU and its clients.
pub(super) struct World {
    submissions: Submissions<Vectors>,
    specs: Specs<Vec<Option<Row>>>,
    actors: Vec<Actor>,
    /// Of each member.
    groups: Vec<Group>,
    costs: Vec<u64>,
    drawn: usize,
    now: Ns,
    timer: Option<Ns>,
    running: Option<Running>,
    /// The longest that a client has kept the engine, by all that its mode lets it have in flight.
    longest: Ns,
    /// Whether an assumption of admission was broken by somebody.
    broken: bool,
    fault: Option<String>,
}

fn user(group: usize) -> Subject {
    Subject::User(u32::try_from(group).unwrap())
}

impl World {
    pub(super) fn new(set: &Set) -> Self {
        let vacant = || Client::vacant(vec![Record::default(); RECORDS]);
        let count = set.members.len() + set.others.len();
        let clients = (0..count).map(|_| vacant()).collect();
        let submissions = Submissions::new(set.dispatcher, clients, vec![None; SPECS + 1]);
        let mut world = Self {
            submissions,
            specs: Specs::up_to(set.limit_pct, vec![None; SPECS]),
            actors: Vec::new(),
            groups: Vec::new(),
            costs: set.costs.clone(),
            drawn: 0,
            now: Ns::ZERO,
            timer: None,
            running: None,
            longest: Ns::ZERO,
            broken: false,
            fault: None,
        };
        let mut leader = 0;
        for (at, member) in set.members.iter().enumerate() {
            let mut member = member.clone();
            if member.shares && at > 0 {
                member.asked = world.groups[leader].asked;
                world.groups[leader].shared = true;
            } else {
                leader = at;
            }
            world.groups.push(Group {
                asked: member.asked,
                admitted: false,
                shared: false,
                judged: true,
                bucket: Bucket::default(),
            });
            let first = Ns::from_us(member.phase_us % member.asked.period_us);
            world.add(Some(member), None, leader, first);
        }
        for other in &set.others {
            world.add(None, Some(*other), usize::MAX, Ns::ZERO);
        }
        for group in 0..set.members.len() {
            if world.actors[group].group == group {
                let asked = world.groups[group].asked;
                world.ask(group, asked);
            }
        }
        world
    }

    fn add(&mut self, member: Option<Member>, other: Option<Other>, group: usize, first: Ns) {
        let at = self.actors.len();
        self.actors.push(Actor {
            member,
            other,
            at,
            group,
            present: true,
            left: 0,
            flights: Vec::new(),
            returns: None,
            draws: 0,
            grants: 0,
            came: Ns::ZERO,
            budget: Ns::ZERO,
            spent: Ns::ZERO,
            next: Some(first),
            began: None,
            used: Ns::ZERO,
            voids: Some(0),
            jobs: 0,
        });
        let setting = self.setting(at);
        self.submissions.join(setting);
    }

    fn asked(&self, at: usize) -> Option<&Asked> {
        self.groups
            .get(self.actors[at].group)
            .map(|group| &group.asked)
    }

    /// Asks for a reserve. Returns whether it is admitted.
    fn ask(&mut self, group: usize, asked: Asked) -> bool {
        let subject = user(group);
        let find = |specs: &Specs<Vec<Option<Row>>>| {
            let at = specs.find(subject)?;
            specs.get(at).copied()
        };
        let before = find(&self.specs);
        self.specs.set(Row::new(subject, asked.spec())).unwrap();
        let mut longest = [Ns::ZERO; SPECS + 1];
        for actor in &self.actors {
            let history = self.submissions.client(actor.at);
            let seen = history.map_or(Ns::ZERO, |client| client.history().longest());
            let (seen, own) = match (&actor.other, self.asked(actor.at)) {
                (Some(other), _) => (Ns::from_us(other.seen_us), None),
                (None, Some(asked)) => {
                    let depth = if asked.ht { 4 } else { 1 };
                    let seen = seen.max(asked.longest()).saturating_mul(depth);
                    (seen, self.specs.find(user(actor.group)))
                }
                (None, None) => continue,
            };
            // A client that is not admitted is one without a reserve.
            let index = own.unwrap_or(SPECS);
            longest[index] = longest[index].max(seen);
        }
        let admitted = self.specs.admit(subject, &longest).is_ok();
        if admitted {
            let members = self.actors.iter().filter(|actor| actor.group == group);
            let depth = if asked.ht { 4 } else { 1 };
            let in_flight = depth * u64::try_from(members.count()).unwrap();
            let own = &mut self.groups[group];
            (own.admitted, own.asked) = (true, asked);
            let (capacity, period) = (asked.capacity(), asked.period());
            own.bucket.promise(self.now, capacity, period, in_flight);
        } else {
            match before {
                Some(row) => self.specs.set(row).unwrap(),
                None => self.specs.clear(subject).unwrap(),
            }
        }
        self.apply_specs();
        admitted
    }

    fn clear(&mut self, group: usize) {
        if self.specs.clear(user(group)).is_ok() {
            let own = &mut self.groups[group];
            own.admitted = false;
            let declared = if own.asked.declares {
                own.asked.longest()
            } else {
                Ns::ZERO
            };
            own.bucket
                .forgive(self.now, own.asked.capacity().max(declared));
            self.apply_specs();
        }
    }

    fn setting(&self, at: usize) -> Setting {
        let actor = &self.actors[at];
        let row = match actor.member {
            Some(_) => self.specs.find(user(actor.group)),
            None => None,
        };
        let spec = row
            .and_then(|row| self.specs.get(row))
            .map(|row| row.spec)
            .unwrap_or_default();
        let prio = actor.other.map_or(19, |other| other.prio);
        Setting {
            prio: spec.prio.unwrap_or(Prio::new(prio).unwrap()),
            mode: spec.mode,
            reserve: row.map_or(BACKGROUND, reserve_of),
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
            let setting = self.setting(at);
            let is_other = |client: &Client<_>| *client.setting() != setting;
            if self.submissions.client(at).is_some_and(is_other) {
                let step = self.submissions.set(self.now, at, setting);
                self.follow(step);
            }
        }
        let step = self.submissions.timer(self.now);
        self.follow(step);
    }

    /// The terms of a client whose deadlines are promised.
    fn firm(&self, at: usize) -> Option<Terms> {
        let index = self.submissions.client(at)?.setting().reserve;
        let terms = *self.submissions.reserve(index)?.terms();
        terms.is_firm().then_some(terms)
    }

    /// How long the next submission of a client lasts.
    fn draw(&mut self, at: usize) -> Ns {
        let asked = self.asked(at).copied();
        let actor = &mut self.actors[at];
        actor.draws += 1;
        if let Some(other) = &actor.other {
            // The longer ones come seldom.
            let longer = actor.draws % 7 == 0;
            let more = if longer { other.longer_pct } else { 0 };
            return Ns::from_us((other.seen_us + other.seen_us * more / 100).max(1));
        }
        let (Some(member), Some(asked)) = (&actor.member, asked) else {
            return Ns::ZERO;
        };
        let pct = member.lengths[actor.draws % member.lengths.len()];
        let length = Ns::new((asked.longest().get() / 100 * pct).max(1_000));
        match member.habit {
            Habit::Long(times) => Ns::new(length.get() * times),
            Habit::Greedy => length,
            Habit::Honest => {
                let length = length.min(actor.budget);
                actor.budget = actor.budget.saturating_sub(length);
                length
            }
        }
    }

    fn blame(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    fn follow(&mut self, step: Step) {
        self.timer = step.timer;
        if let Some(miss) = step.miss.filter(|miss| miss.void.is_none()) {
            let now = self.now;
            self.blame(format!(
                "a promised deadline is missed: {miss:?} at {now:?}"
            ));
        }
        let Some(grant) = step.grant else {
            self.check_idle();
            return;
        };
        let at = grant.client;
        if std::env::var("TRACE").is_ok() {
            let i = self.submissions.client(at).unwrap().setting().reserve;
            eprintln!(
                "{:?} grant {at} reserve {i} left {:?}",
                self.now,
                self.submissions.reserve(i).map(|r| r.left(self.now))
            );
        }
        let actor = &mut self.actors[at];
        let fates = actor.member.as_ref().map(|member| &member.fates);
        let fate = fates.map_or(Fate::Runs, |fates| fates[actor.grants % fates.len()]);
        actor.grants += 1;
        actor.left = actor.left.saturating_sub(1);
        if let Some(own) = self.groups.get_mut(actor.group) {
            own.bucket
                .expects(grant.expected.saturating_add(grant.margin));
        }
        if let Fate::Returns(us) = fate {
            actor.returns = Some((self.now.saturating_add(Ns::from_us(us)), self.now));
            return;
        }
        let length = self.draw(at);
        let mode = self
            .submissions
            .client(at)
            .map(|client| client.setting().mode);
        let together = length.saturating_mul(mode.map_or(1, |mode| mode.depth()));
        self.longest = self.longest.max(together);
        let cost = self.costs[self.drawn % self.costs.len()];
        self.drawn += 1;
        let begins = Ns::new(SUBMISSION.get() / 100 * cost);
        let setting = self
            .submissions
            .client(at)
            .map(|client| client.setting().reserve);
        let reserve = setting.and_then(|index| self.submissions.reserve(index));
        let hard = reserve.is_some() && self.asked(at).is_some_and(|asked| asked.hard);
        let flight = Flight {
            length,
            dies: match fate {
                Fate::Dies(pct) => Some(Ns::new(length.get() / 100 * pct)),
                _ => None,
            },
            hard,
        };
        if self.running.is_none() {
            self.run_next(at, flight, self.now.saturating_add(begins));
        }
        let actor = &mut self.actors[at];
        actor.flights.push(flight);
        // Its thread stores again at once.
        if actor.left > 0 && actor.budget > Ns::ZERO {
            self.arrive(at);
        }
    }

    fn run_next(&mut self, at: usize, flight: Flight, since: Ns) {
        let end = since.saturating_add(flight.dies.unwrap_or(flight.length));
        self.running = Some(Running { at, since, end });
    }

    /// Work is conserved: an idle engine keeps nobody waiting to whom nothing is promised, and who owes
    /// nothing.
    fn check_idle(&mut self) {
        let busy = self.actors.iter().any(|actor| !actor.flights.is_empty());
        let busy = busy || self.actors.iter().any(|actor| actor.returns.is_some());
        if busy || self.submissions.counters().exceeded > 0 {
            return;
        }
        let waits = |actor: &&Actor| {
            let client = self.submissions.client(actor.at);
            actor.other.is_some() && client.is_some_and(Client::waits)
        };
        if let Some(at) = self.actors.iter().find(waits).map(|actor| actor.at) {
            let now = self.now;
            self.blame(format!("{at} waits for an idle engine at {now:?}"));
        }
    }

    fn arrive(&mut self, at: usize) {
        let step = self.submissions.arrive(self.now, at);
        self.follow(step);
    }

    /// A client begins a job, after it has come if it is not there.
    fn begin(&mut self, at: usize) {
        if !self.actors[at].present {
            self.actors[at].present = true;
            let setting = self.setting(at);
            let owed = self.submissions.owed(self.now, core::iter::once(at));
            self.submissions.join_at(at, setting, owed);
        }
        let asked = self.asked(at).copied();
        let voids = self.void(at);
        let actor = &mut self.actors[at];
        actor.next = None;
        actor.began.get_or_insert(self.now);
        (actor.came, actor.spent) = (self.now, Ns::ZERO);
        (actor.left, actor.budget) = match (&actor.member, asked) {
            (Some(member), Some(asked)) if member.habit == Habit::Honest => {
                (asked.commands, asked.capacity())
            }
            _ => (u64::MAX, Ns::new(u64::MAX)),
        };
        actor.voids = Some(voids);
        self.arrive(at);
    }

    /// Misses of the reserve of a client that were void, by those of some causes.
    fn voids(&self, at: usize, of: &[Void]) -> u64 {
        let index = self
            .submissions
            .client(at)
            .map(|client| client.setting().reserve);
        let reserve = index.and_then(|index| self.submissions.reserve(index));
        let misses = reserve.map(|reserve| reserve.served().misses);
        misses.map_or(0, |misses| of.iter().map(|why| misses.void(*why)).sum())
    }

    /// Those of all causes.
    fn void(&self, at: usize) -> u64 {
        self.voids(at, &Void::ALL)
    }

    /// What a hard reserve has used is not more than its rate and its bound.
    fn count(&mut self, at: usize, hard: bool, used: Ns) {
        let (now, group) = (self.now, self.actors[at].group);
        let Some(own) = self.groups.get_mut(group).filter(|_| hard) else {
            return;
        };
        if let Some(over) = own.bucket.uses(now, used) {
            let bucket = own.bucket;
            self.blame(format!(
                "{group} has used {over:?} too much at {now:?}: {bucket:?}"
            ));
        }
    }

    /// What is on the engine ends.
    fn complete(&mut self) {
        let Some(Running { at, since, .. }) = self.running.take() else {
            return;
        };
        let flight = self.actors[at].flights.remove(0);
        let exceeded = self.submissions.counters().exceeded;
        let declared = self.firm(at).and_then(|terms| terms.longest);
        if flight.dies.is_some() {
            let held = self.now.saturating_sub(since);
            self.count(at, flight.hard, held);
            // The costs of its submission too.
            let held = held.saturating_add(SUBMISSION);
            self.broken |= declared.is_some_and(|longest| held > longest);
            self.die(at);
            self.broken |= self.submissions.counters().exceeded > exceeded;
            return;
        }
        let used = flight.length;
        let actor = &mut self.actors[at];
        actor.spent = actor.spent.saturating_add(used);
        actor.used = actor.used.saturating_add(used);
        self.count(at, flight.hard, used);
        self.broken |= declared.is_some_and(|longest| used > longest);
        if let Some(next) = self.actors[at].flights.first().copied() {
            self.run_next(at, next, self.now);
        }
        let step = self.submissions.completed(self.now, at, used);
        self.follow(step);
        self.broken |= self.submissions.counters().exceeded > exceeded;
        self.end_job(at);
    }

    /// A client ends while its command runs, and comes anew.
    fn die(&mut self, at: usize) {
        let actor = &mut self.actors[at];
        actor.flights.clear();
        (actor.returns, actor.present, actor.left) = (None, false, 0);
        self.rest(at);
        let step = self.submissions.left(self.now, at);
        self.follow(step);
    }

    /// A client does not use its newest grant.
    fn give_back(&mut self, at: usize) {
        self.actors[at].returns = None;
        self.rest(at);
        let step = self.submissions.returned(self.now, at);
        self.follow(step);
    }

    /// A client begins its next job after a pause.
    fn rest(&mut self, at: usize) {
        let now = self.now;
        let actor = &mut self.actors[at];
        actor.jobs += 1;
        let Some(member) = &actor.member else { return };
        let jobs = usize::try_from(actor.jobs).unwrap();
        let pause = Ns::from_us(member.pauses_us[jobs % member.pauses_us.len()]);
        actor.next = Some(now.saturating_add(pause));
    }

    /// Judges the job of an honest client, if it is done.
    fn end_job(&mut self, at: usize) {
        let (now, void, firm) = (self.now, self.void(at), self.firm(at));
        let Some(asked) = self.asked(at).copied() else {
            return;
        };
        let group = self.actors[at].group;
        let Group { judged, shared, .. } = self.groups[group];
        let actor = &mut self.actors[at];
        let Some(member) = &actor.member else { return };
        let waits = self.submissions.client(at).is_some_and(Client::waits);
        let done = actor.flights.is_empty() && actor.returns.is_none() && !waits;
        if member.habit != Habit::Honest || !done || actor.next.is_some() {
            return;
        }
        actor.jobs += 1;
        let due = actor.came.saturating_add(asked.deadline());
        let again = actor.came.saturating_add(asked.period());
        let pause = member.pauses_us[usize::try_from(actor.jobs).unwrap() % member.pauses_us.len()];
        // One whose terms were changed meanwhile has used more than its capacity.
        let periods = actor.spent.get().div_ceil(asked.capacity().get());
        let rest = match actor.voids {
            Some(_) => Ns::ZERO,
            None => asked.period().saturating_mul(periods + 1),
        };
        let next = again.max(now.saturating_add(rest));
        actor.next = Some(next.saturating_add(Ns::from_us(pause)));
        // One that needs several periods for a submission is judged by the module only.
        let fits = asked.longest() <= asked.capacity();
        let promised = self.submissions.dispatcher() == DispatcherKind::Edf && firm.is_some();
        let judged = promised && fits && !shared && member.is_honest() && judged;
        if judged && now > due && actor.voids == Some(void) {
            let late = now.saturating_sub(due);
            self.blame(format!("job of {at} is late by {late:?} at {now:?}"));
        }
    }

    /// A reserve whose client always wants more gets its part, less what it is charged for submissions
    /// beyond those declared; but AE, which loses what does not fit.
    fn judge_part(&mut self, at: usize) {
        let actor = &self.actors[at];
        let group = &self.groups[actor.group];
        let Some(member) = &actor.member else { return };
        let always = member.habit == Habit::Greedy && member.runs_all();
        let keeps = group.admitted && group.judged && !group.shared;
        // What it is kept waiting for is caught up if it is not more than this.
        let capacities = self.groups.iter().map(|group| group.asked.capacity());
        let capacities = capacities.fold(Ns::ZERO, Ns::saturating_add);
        let borne = self.longest.saturating_add(capacities) <= CATCHES_UP;
        if !always || !keeps || !borne || self.broken || group.asked.kind == Kind::Ae {
            return;
        }
        let Some(began) = actor.began else { return };
        let terms = group.asked.spec().reserve.unwrap();
        let grants = u64::try_from(actor.grants).unwrap();
        let charged = actor.used.saturating_add(SUBMISSION.saturating_mul(grants));
        let time = self.now.saturating_sub(began);
        let part = mul_div(time.get(), terms.capacity.get(), terms.period.get());
        let less = group.bucket.slack().saturating_add(terms.capacity);
        if charged.saturating_add(less) < Ns::new(part) {
            let now = self.now;
            self.blame(format!(
                "{at} was charged {charged:?} of {part} ns in {time:?} at {now:?}"
            ));
        }
    }

    /// The next event up to this time, if there is one.
    fn advance(&mut self, until: Ns) -> bool {
        let comes = self
            .actors
            .iter()
            .filter_map(|actor| actor.next.map(|next| (next, actor.at)))
            .min();
        let returns = self
            .actors
            .iter()
            .filter_map(|actor| actor.returns.map(|(when, _)| (when, actor.at)))
            .min();
        let ends = self.running.map(|running| running.end);
        let times = [
            comes.map(|(next, _)| next),
            returns.map(|(next, _)| next),
            ends,
            self.timer,
        ];
        let Some(next) = times
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
        } else if let Some((_, at)) = returns.filter(|(when, _)| *when == next) {
            self.give_back(at);
        } else if let Some((_, at)) = comes.filter(|(came, _)| *came == next) {
            self.begin(at);
        } else {
            let step = self.submissions.timer(self.now);
            self.follow(step);
        }
        true
    }

    /// Something is done to a reserve.
    fn act(&mut self, group: usize, act: &Act) {
        let mut asked = self.groups[group].asked;
        // Jobs under way have other terms now.
        for actor in self.actors.iter_mut().filter(|actor| actor.group == group) {
            actor.voids = None;
        }
        self.groups[group].judged = false;
        match act {
            Act::Clear => return self.clear(group),
            Act::Set(change, number) => change(&mut asked, *number),
            Act::Kind(kind, hard) => {
                (asked.kind, asked.hard) = (*kind, *hard);
                asked.declares &= *kind == Kind::Cbs;
            }
        }
        // Admission counts with what is in flight of one mode.
        self.broken |= asked.ht != self.groups[group].asked.ht;
        self.ask(group, asked);
    }

    /// What is done to reserves, in order.
    fn acts(&self, set: &Set) -> Vec<(Ns, usize, Act)> {
        let keep: fn(&mut Asked, u64) = |_, _| ();
        let mut acts = Vec::new();
        for (us, at, change) in &set.changes {
            let group = self.actors[at % set.members.len()].group;
            let now = Ns::from_us(*us);
            match change {
                Change::Anew => {
                    acts.push((now, group, Act::Clear));
                    acts.push((now, group, Act::Set(keep, 0)));
                }
                Change::Later(later) => {
                    acts.push((now, group, Act::Clear));
                    let then = now.saturating_add(Ns::from_us(*later));
                    acts.push((then, group, Act::Set(keep, 0)));
                }
                Change::Capacity(pct) => {
                    let set: fn(&mut Asked, u64) = |asked, pct| asked.capacity_pct = pct;
                    acts.push((now, group, Act::Set(set, *pct)));
                }
                Change::Mode => {
                    let turn: fn(&mut Asked, u64) = |asked, _| asked.ht = !asked.ht;
                    acts.push((now, group, Act::Set(turn, 0)));
                }
                Change::Kind(kind, hard) => acts.push((now, group, Act::Kind(*kind, *hard))),
            }
        }
        acts.sort_by_key(|(when, ..)| *when);
        acts
    }

    pub(super) fn run(mut self, set: &Set) -> Result<(), String> {
        let mut events = 0;
        for (when, group, act) in self.acts(set) {
            let until = when.min(LENGTH);
            while self.fault.is_none() && events < MOST_EVENTS && self.advance(until) {
                events += 1;
            }
            if events == MOST_EVENTS || self.fault.is_some() || when >= LENGTH {
                break;
            }
            self.now = self.now.max(until);
            self.act(group, &act);
        }
        while self.fault.is_none() && events < MOST_EVENTS && self.advance(LENGTH) {
            events += 1;
        }
        (0..set.members.len()).for_each(|at| self.judge_part(at));
        // Who uses more than it has left breaks its own promise only, and `prio` promises none.
        let void = [Void::Foreign, Void::Fallback];
        let void: u64 = (0..set.members.len()).map(|at| self.voids(at, &void)).sum();
        match self.fault {
            Some(fault) => Err(fault),
            None if void > 0 && !self.broken => Err(format!("{void} void, and nothing was broken")),
            None => Ok(()),
        }
    }
}
