// SPDX-License-Identifier: GPL-2.0

//! Random sets of reserves: which are admitted, and whether what was admitted keeps its deadlines.
//!
//! A set has 2 to 16 clients with a CBS reserve each, whose parts of the GPU add up to a number from
//! 0.1 to 1 (UUniFast; more where a part is too small for a command), and a client without a promise.
//! Some of them may be due before the end of their period, between their capacity and it.
//! A well-behaved client submits in each period what its capacity is made for: its commands, 300 us
//! for each, half of all and 200 us, as `tests/guest/src/reserve_sets.rs` has it. A quarter of the
//! others misbehaves: it always wants more, with commands of up to 2.5 times its capacity, which it
//! has declared; its own deadlines are not judged. Sets that are admitted by the test of [`loga::engaged::deadlines`] are simulated under
//! `edf`, and those that only [`loga::engaged::by_sum`] admits too.
//!
//! Source of UUniFast: Bini and Buttazzo, Real-Time Systems 30, 2005.

use super::exact;
use crate::outcome::Error;
use crate::report::text::table;
use crate::run::run_gpu;
use crate::scenario::{Client, Costs, Engagement, Kind, Phase, Policy, Promise, Scenario, Span};
use loga::engaged::{self, by_sum, deadlines, Mode, Prio, Task, Terms};
use loga::policies::dispatch::DispatcherKind;
use loga::units::Ns;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use std::fmt::Write;

/// What may be promised, in percent.
const LIMIT_PCT: u64 = 90;
/// What a submission costs beside its command, as the module reckons it.
const DELTA: Ns = engaged::SUBMISSION;
/// What a command is charged at most beside its length: what its submission costs, and the time until
/// its end is seen.
const CHARGED: Ns = Ns::from_us(300);
/// What is promised beside that, with half of all commands: the end of one whose length is not known
/// yet is seen when half of its time more has passed.
const SPARE: Ns = Ns::from_us(200);
/// Bins of the promised part.
const BINS: usize = 10;
/// Longest command of a well-behaved client, with what it is charged beside.
const LONGEST: Ns = Ns::from_us(10_000);

/// What is simulated.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Settings {
    /// Number of sets.
    pub sets: u64,
    /// Simulated time of each, in seconds.
    pub seconds: u64,
    /// Of the random numbers.
    pub seed: u64,
    /// Part of the reserves whose deadline is before the end of their period, in percent.
    pub early_pct: u32,
}

/// Sets with about the same part promised.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bin {
    /// How many.
    pub sets: u64,
    /// Admitted by the test with the longest commands.
    pub admitted: u64,
    /// Admitted by the exact test for tasks.
    pub exact: u64,
    /// Admitted by the sum of the promises.
    pub by_sum: u64,
}

/// What the simulation of some sets gave.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Judged {
    /// Sets.
    pub sets: u64,
    /// Sets in which a well-behaved client missed a deadline.
    pub broken: u64,
    /// Rounds of well-behaved clients.
    pub jobs: u64,
    /// Of them, late.
    pub missed: u64,
    /// Deadlines that the module had promised and says were missed: not those that its own client
    /// missed by what it used.
    pub promised: u64,
    /// The longest time of a round over its deadline, in percent: above 100, a deadline was missed.
    pub worst_pct: f64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was simulated.
    pub settings: Settings,
    /// By the part promised: up to 0.1, up to 0.2, ...
    pub bins: [Bin; BINS],
    /// Sets admitted by the test.
    pub admitted: Judged,
    /// Sets that only the sum admits.
    pub by_sum_only: Judged,
}

/// Makes the sets and simulates those that are admitted.
///
/// # Errors
///
/// An oracle says that a run does not count.
pub fn run(settings: Settings) -> Result<Report, Error> {
    let mut report = Report {
        settings,
        bins: Default::default(),
        admitted: Judged::default(),
        by_sum_only: Judged::default(),
    };
    for number in 0..settings.sets {
        let seed = settings.seed.wrapping_mul(1 << 32).wrapping_add(number);
        let set = Set::random(seed, settings.early_pct);
        // CAST: from 0 to 1.
        let bin = ((set.part * BINS as f64) as usize).min(BINS - 1);
        let bin = &mut report.bins[bin];
        let (admitted, sum) = (set.admitted(), by_sum(&set.tasks, LIMIT_PCT));
        bin.sets += 1;
        bin.admitted += u64::from(admitted);
        bin.exact += u64::from(exact::admits(&set.tasks, DELTA, LIMIT_PCT));
        bin.by_sum += u64::from(sum);
        if admitted {
            set.judge(number, settings.seconds, &mut report.admitted)?;
        } else if sum {
            set.judge(number, settings.seconds, &mut report.by_sum_only)?;
        }
    }
    Ok(report)
}

/// A set.
struct Set {
    /// Part of the GPU that is promised.
    part: f64,
    clients: Vec<Client>,
    tasks: Vec<Task>,
}

impl Set {
    fn random(seed: u64, early_pct: u32) -> Self {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let (part, count) = (random.random_range(0.1..1.0), random.random_range(2..=16));
        let (mut clients, mut tasks) = (Vec::new(), Vec::new());
        for (at, part) in uunifast(part, count, random).into_iter().enumerate() {
            let (client, task) = member(at, part, early_pct, random);
            clients.push(client);
            tasks.push(task);
        }
        let longest = Ns::from_us(random.random_range(10..=2000));
        clients.push(Client::new("background", vec![kernels(longest, 1, 1000)]));
        tasks.push(Task {
            promise: None,
            longest: longest.saturating_add(CHARGED),
        });
        let promised = clients
            .iter()
            .filter_map(|client: &Client| client.engaged.promise);
        // CAST: lengths below a hundred days are exact in a double.
        let part = |promise| match promise {
            Promise::Own(terms) => terms.capacity.get() as f64 / terms.period.get() as f64,
            Promise::Shared(_) => 0.0,
        };
        Self {
            part: promised.map(part).sum(),
            clients,
            tasks,
        }
    }

    fn admitted(&self) -> bool {
        deadlines(&self.tasks, DELTA, LIMIT_PCT).is_ok()
    }

    /// Simulates it.
    fn judge(&self, seed: u64, seconds: u64, judged: &mut Judged) -> Result<(), Error> {
        let scenario = Scenario {
            policy: Policy::paper(Kind::Engaged(DispatcherKind::Edf)),
            clients: self.clients.clone(),
            ..Scenario::new(Ns::from_ms(seconds * 1000), Costs::default())
        };
        let outcome = run_gpu(&scenario, 0, seed, &mut None)?;
        let mut missed = 0;
        for (client, outcome) in self.clients.iter().zip(&outcome.clients) {
            let Some(deadline) = client.deadline else {
                continue;
            };
            missed += outcome.got.missed;
            judged.jobs += outcome.got.rounds.count;
            // CAST: times of seconds are exact in a double.
            let worst = 100.0 * outcome.got.rounds.longest as f64 / deadline.get() as f64;
            judged.worst_pct = judged.worst_pct.max(worst);
        }
        judged.sets += 1;
        judged.broken += u64::from(missed > 0);
        judged.missed += missed;
        judged.promised += outcome.ledger.misses.promised;
        Ok(())
    }
}

/// Parts that add up to `all`, all such equally likely.
fn uunifast(all: f64, count: usize, random: &mut Pcg64Mcg) -> Vec<f64> {
    let mut left = all;
    let mut parts = Vec::new();
    for others in (1..count).rev() {
        let drawn: f64 = random.random();
        // CAST: at most 16.
        let rest = left * drawn.powf(1.0 / others as f64);
        parts.push(left - rest);
        left = rest;
    }
    parts.push(left);
    parts
}

/// Kernels of one length, queued so deep and waited for after `count`.
fn kernels(length: Ns, depth: u32, count: u64) -> Phase {
    Phase {
        depth,
        repeat: count,
        ..Phase::new(Span::us(0), Span::Constant(length))
    }
}

/// A client with this part of the GPU, and what is said of it for its admission.
fn member(at: usize, part: f64, early_pct: u32, random: &mut Pcg64Mcg) -> (Client, Task) {
    // Periods of 5 to 200 ms, each order of magnitude alike.
    let period_us = 5_000.0 * 40_f64.powf(random.random());
    // CAST: positive numbers of microseconds; nanoseconds are exact.
    let promised = Ns::new((part * period_us * 1e3) as u64).saturating_sub(SPARE);
    // As many as there is room for, and none longer than the longest.
    let most = (promised.get() / (2 * CHARGED.get())).max(1);
    let least = promised.get().div_ceil(LONGEST.get()).max(1);
    let commands = random.random_range(1..=4_u64).min(most).max(least);
    let each = Ns::new(2 * promised.get() / (3 * commands)).saturating_sub(CHARGED);
    let each = each.max(Ns::from_us(10));
    let charged = each.saturating_add(CHARGED);
    let all = charged.saturating_mul(commands);
    let capacity = Ns::new(all.get() * 3 / 2).saturating_add(SPARE);
    let period = Ns::new((period_us * 1e3) as u64).max(capacity);
    // The sets without such deadlines are the same whether there is the choice or not.
    let early = early_pct > 0 && random.random_ratio(early_pct, 100);
    let deadline = match early {
        true => Ns::new(random.random_range(capacity.get()..=period.get())),
        false => period,
    };
    let misbehaves = random.random_bool(0.25);
    let (longest, phase) = if misbehaves {
        // CAST: a length of milliseconds.
        let long = Ns::new((capacity.get() as f64 * random.random_range(1.0..2.5)) as u64);
        (long.saturating_add(CHARGED), kernels(long, 1, 100))
    } else {
        let longest = Ns::new(charged.get() * 3 / 2).saturating_add(SPARE);
        (longest, kernels(each, 1, commands))
    };
    let terms = Terms {
        kind: engaged::Kind::Cbs,
        capacity,
        period,
        deadline,
        hard: true,
        longest: Some(longest),
        // A command that does not fit into a period is paid from several.
        commands,
        submission: DELTA,
    };
    let task = Task {
        promise: Some(engaged::Promise::of(&terms, 1)),
        longest,
    };
    let client = Client {
        // CAST: as above.
        arrive: Ns::new(random.random_range(0..period.get())),
        cycle: (!misbehaves).then_some(period),
        deadline: (!misbehaves).then_some(deadline.saturating_add(DELTA)),
        channels: 1,
        engaged: Engagement {
            prio: Prio::NORMAL,
            mode: Mode::Prt,
            promise: Some(Promise::Own(terms)),
        },
        ..Client::new(&format!("client-{at}"), vec![phase])
    };
    (client, task)
}

/// The report as tables.
pub fn text(report: &Report) -> String {
    let settings = &report.settings;
    let mut text = format!(
        "{} sets of 2 to 16 reserves (CBS, hard) beside a client without one, seed {}, {} s each\n\n",
        settings.sets, settings.seed, settings.seconds
    );
    let mut bins = table([
        "promised",
        "sets",
        "admitted %",
        "exact %",
        "of the exact %",
        "by the sum %",
    ]);
    for (at, bin) in (1..).zip(&report.bins) {
        // CAST: counts.
        let of = |part: u64, all: u64| match all {
            0 => "-".to_owned(),
            all => format!("{:.1}", 100.0 * part as f64 / all as f64),
        };
        let pct = |part: u64| of(part, bin.sets);
        bins.add_row([
            format!("to 0.{at}").replace("0.10", "1.0"),
            bin.sets.to_string(),
            pct(bin.admitted),
            pct(bin.exact),
            of(bin.admitted, bin.exact),
            pct(bin.by_sum),
        ]);
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}\n", bins.trim_fmt());
    let mut judged = table([
        "",
        "sets",
        "with a miss",
        "rounds",
        "late",
        "promises missed",
        "longest, % of deadline",
    ]);
    for (what, one) in [
        ("admitted", &report.admitted),
        ("by the sum only", &report.by_sum_only),
    ] {
        judged.add_row([
            what.to_owned(),
            one.sets.to_string(),
            one.broken.to_string(),
            one.jobs.to_string(),
            one.missed.to_string(),
            one.promised.to_string(),
            format!("{:.2}", one.worst_pct),
        ]);
    }
    let _ = writeln!(text, "{}", judged.trim_fmt());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uunifast_divides_all_of_it() {
        let random = &mut Pcg64Mcg::seed_from_u64(3);
        for count in 1..17 {
            let parts = uunifast(0.7, count, random);
            assert_eq!(parts.len(), count);
            assert!((parts.iter().sum::<f64>() - 0.7).abs() < 1e-9);
            assert!(parts.iter().all(|part| (0.0..=0.7).contains(part)));
        }
    }

    #[test]
    fn exact_test_admits_all_that_the_module_admits_and_knows_what_is_too_much() {
        let (mut admitted, mut exact, mut sum) = (0, 0, 0);
        for seed in 0..2_000 {
            let set = Set::random(seed, (seed % 2 * 50) as u32);
            let admits = exact::admits(&set.tasks, DELTA, LIMIT_PCT);
            assert!(admits || !set.admitted(), "{:?}", set.tasks);
            let by_sum = by_sum(&set.tasks, LIMIT_PCT);
            assert!(by_sum || !admits, "{:?}", set.tasks);
            admitted += u32::from(set.admitted());
            exact += u32::from(admits);
            sum += u32::from(by_sum);
        }
        assert!(0 < admitted);
        assert!(admitted < exact);
        assert!(exact < sum);
    }

    #[test]
    fn sets_of_a_seed_are_the_same() {
        let (one, other) = (Set::random(5, 0), Set::random(5, 0));
        assert_eq!(one.tasks, other.tasks);
        assert_ne!(one.tasks, Set::random(6, 0).tasks);
        assert_ne!(one.tasks, Set::random(5, 50).tasks);
    }
}
