// SPDX-License-Identifier: GPL-2.0

//! Policy `sampling`: each client alone for a while, then a free run by what was measured.
//!
//! Rule: barrier (all throttled), drain (until no channel has work), each client that is not
//! throttled alone for `poll_ms` per channel, its channels scanned every millisecond, until 96
//! commands are done; then a free run of `ratio` times as long.
//! `dvt = average / sum of averages * t_freerun * 100 / weight`, where `average` is the time with
//! work pending over the commands completed and `t_freerun` the length of the free run before;
//! `t_sys = min vt` over clients that had commands or were throttled; idle clients that are behind
//! are lifted to `t_sys`; `throttled = vt > t_sys + t_freerun * 100 / w_min`, with the longer of
//! both free runs, `w_min` as in `event`.
//!
//! The prototype charges for the free run to come. With it, a client that is throttled next has
//! paid already, and a client that is not sampled shortens the free run: of two clients that always
//! want more, with commands of 1000 and 100 us, the first got 31 %. Charged for what is past, both
//! get half.
//!
//! Good for: comparison with NEON; hardware that shows completions and nothing else.
//! Bad for: utilisation: a client alone rarely fills the GPU; and for clients that use it rarely:
//! their average command counts as much as if they ran it back to back.
//! Bound: one command that never ends stops a drain after [`MAX_DRAIN`], counted; a client that
//! still has work then is charged as if its commands were that long.
//! Source: LoGA paper, section 2.3; Menychtas et al., Disengaged Scheduling for Fair,
//! Protected Access to Fast Computational Accelerators (ASPLOS 2014).

use super::{ClientState, Next, Policy, Rule, Scan};
use crate::fair;
use crate::ids::GroupId;
use crate::units::{Ns, VTime, Weight};

/// Time between scans while a turn or a drain lasts.
const SCAN_INTERVAL: Ns = Ns::from_ms(1);
/// A drain ends after this long, whatever still runs.
pub(super) const MAX_DRAIN: Ns = Ns::from_ms(1_000);
/// Commands after which a turn ends early.
const ENOUGH: u64 = 96;
/// Longest free run.
const MAX_FREE_RUN: Ns = Ns::from_ms(10_000);

/// Where the policy is, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing was sampled yet: all clients run.
    #[default]
    Start,
    /// All run, except clients that are further ahead than the lead.
    FreeRun { since: Ns },
    /// All are throttled until no channel has work; then the first turn begins.
    Drain { since: Ns },
    /// One client runs alone.
    Slice { of: GroupId, since: Ns },
    /// All are throttled until the work of that client is done.
    Empty { of: GroupId, since: Ns },
}

/// What is kept of the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Season {
    pub(super) stage: Stage,
    /// When the first drain of the season began.
    began: Ns,
    /// Length of the free run before.
    ran: Ns,
}

/// What is kept of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time with work pending.
    pending: Ns,
    /// Commands completed.
    done: u64,
    /// It is throttled in free runs.
    back: bool,
}

/// Each client alone for a while, then a free run.
pub struct Sampling;

impl Policy for Sampling {
    const NAME: &'static str = "sampling";
    const RULE: Rule<Self> = Rule::Scans(Self::decide);
    type OfClient = Sample;
    type OfGpu = Season;
}

impl Sampling {
    pub(super) fn decide(scan: &Scan, season: &mut Season, clients: &mut [ClientState]) -> Next {
        let mut overdue = false;
        match season.stage {
            Stage::Start => begin_season(scan, season, clients, Ns::ZERO),
            Stage::FreeRun { since } => {
                let ran = scan.now.saturating_sub(since).min(MAX_FREE_RUN);
                begin_season(scan, season, clients, ran);
            }
            Stage::Drain { since } => {
                let lasting = scan.now.saturating_sub(since);
                let drained = is_drained(clients);
                overdue = !drained && lasting >= MAX_DRAIN;
                if overdue {
                    charge_pending(lasting, clients);
                }
                if drained || overdue {
                    return next_slice(scan, season, clients, None, overdue);
                }
            }
            Stage::Slice { of, since } => {
                observe(scan, of, clients);
                if slice_is_over(scan, of, clients, scan.now.saturating_sub(since)) {
                    throttle_all(clients);
                    let since = scan.now;
                    season.stage = Stage::Empty { of, since };
                }
            }
            Stage::Empty { of, since } => {
                observe(scan, of, clients);
                let drained = is_drained(clients);
                overdue = !drained && scan.now.saturating_sub(since) >= MAX_DRAIN;
                if drained || overdue {
                    return next_slice(scan, season, clients, Some(of), overdue);
                }
            }
        }
        Next {
            at: scan.now.saturating_add(SCAN_INTERVAL),
            t_sys: scan.t_sys,
            overdue,
        }
    }
}

fn throttle_all(clients: &mut [ClientState]) {
    clients
        .iter_mut()
        .for_each(|client| client.throttled = true);
}

fn is_drained(clients: &[ClientState]) -> bool {
    !clients.iter().any(|client| client.seen.pending)
}

/// Begins the first drain, after a free run that lasted this long.
fn begin_season(scan: &Scan, season: &mut Season, clients: &mut [ClientState], ran: Ns) {
    throttle_all(clients);
    for client in clients.iter_mut() {
        let sample = client.kept.of_mut::<Sampling>();
        *sample = Sample {
            back: sample.back,
            ..Sample::default()
        };
    }
    *season = Season {
        stage: Stage::Drain { since: scan.now },
        began: scan.now,
        ran,
    };
}

/// Adds a scan to what is known of the client that has its turn.
fn observe(scan: &Scan, of: GroupId, clients: &mut [ClientState]) {
    for client in clients.iter_mut().filter(|client| client.id == of) {
        let seen = client.seen;
        let sample = client.kept.of_mut::<Sampling>();
        if seen.pending || seen.completed > 0 {
            // A command that ended since the last scan ran for half of that time, on average.
            let time = if seen.pending {
                scan.since
            } else {
                Ns::new(scan.since.get() / 2)
            };
            sample.pending = sample.pending.saturating_add(time);
        }
        sample.done = sample.done.saturating_add(seen.completed.into());
    }
}

/// Charges the clients that still have work after a drain: the others wait for them.
fn charge_pending(lasting: Ns, clients: &mut [ClientState]) {
    for client in clients.iter_mut().filter(|client| client.seen.pending) {
        client.kept.of_mut::<Sampling>().pending = lasting;
    }
}

fn slice_is_over(scan: &Scan, of: GroupId, clients: &[ClientState], lasting: Ns) -> bool {
    clients
        .iter()
        .find(|client| client.id == of)
        .is_none_or(|client| {
            let length = scan.slice.saturating_mul(client.channels.max(1).into());
            lasting >= length || sample(client).done >= ENOUGH
        })
}

/// Begins the next client's turn, or the free run when all clients have had theirs.
fn next_slice(
    scan: &Scan,
    season: &mut Season,
    clients: &mut [ClientState],
    last: Option<GroupId>,
    late: bool,
) -> Next {
    let after = |client: &&ClientState| {
        last.is_none_or(|last| client.id > last) && !sample(client).back && client.channels > 0
    };
    let next: Option<GroupId> = clients.iter().filter(after).map(|client| client.id).min();
    let since = scan.now;
    let mut answer = Next {
        at: scan.now.saturating_add(SCAN_INTERVAL),
        t_sys: scan.t_sys,
        overdue: late,
    };
    // Beside a command that never ends no client can be sampled alone.
    if let Some(of) = next.filter(|_| !late) {
        for client in clients.iter_mut() {
            client.throttled = client.id != of;
        }
        season.stage = Stage::Slice { of, since };
        return answer;
    }
    let sampled = scan.now.saturating_sub(season.began);
    let run = sampled
        .max(SCAN_INTERVAL)
        .saturating_mul(scan.ratio.into())
        .min(MAX_FREE_RUN);
    // A command that never ended ran all along.
    let drained = if late { sampled } else { Ns::ZERO };
    let past = season.ran.saturating_add(drained);
    let lead = run.max(past);
    answer.t_sys = judge(scan.t_sys, past, lead, clients, late);
    answer.at = scan.now.saturating_add(run);
    season.stage = Stage::FreeRun { since };
    answer
}

/// What is known of a client.
fn sample(client: &ClientState) -> Sample {
    client.kept.of::<Sampling>().copied().unwrap_or_default()
}

/// Average length of a client's commands.
fn average(client: &ClientState) -> Ns {
    let sample = sample(client);
    Ns::new(sample.pending.get() / sample.done.max(1))
}

/// Advances virtual times by averages, for the free run that is past, and throttles the clients
/// that are further ahead than `lead` in the next one. After a drain that came too `late` no client
/// had a turn: a client that wants the GPU is not idle then.
fn judge(t_sys: VTime, past: Ns, lead: Ns, clients: &mut [ClientState], late: bool) -> VTime {
    let sum = clients
        .iter()
        .fold(Ns::ZERO, |sum, client| sum.saturating_add(average(client)));
    for client in clients.iter_mut() {
        let by = fair::advance(average(client), sum, past, client.weight);
        client.vtime = client.vtime.saturating_add(by);
    }
    let counts = |client: &&ClientState| {
        !average(client).is_zero() || sample(client).back || (late && client.wants())
    };
    let least = clients.iter().filter(counts).map(|c| c.vtime).min();
    let t_sys = least.map_or(t_sys, |least| least.max(t_sys));
    let lightest = clients.iter().filter(counts).map(|c| c.weight).min();
    let limit = fair::threshold(t_sys, lead, lightest.unwrap_or(Weight::DEFAULT));
    for client in clients.iter_mut() {
        client.vtime = client.vtime.max(t_sys);
        client.throttled = !sum.is_zero() && client.vtime > limit;
        client.kept.of_mut::<Sampling>().back = client.throttled;
    }
    t_sys
}
