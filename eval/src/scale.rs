// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What it costs to choose among many GPUs: time of a choice, and memory.
//!
//! Programs start one after the other, and the one that has been there longest ends, so that the
//! number of programs stays what it was. Nothing is simulated on the GPUs. Times are those of the
//! thread on its processor, which other programs on the machine do not add to. A choice begins with the
//! programs of each GPU in a list and ends with the index of one.

use cpu_time::ThreadTime;
use loga::placement::many::{self, Choice, Sums};
use loga::placement::{self, Bound, Demand, Gpu, Newcomer, Placement, PPM};
use loga::units::{Ns, Weight};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt::Write;
use std::mem::size_of;

/// Programs per GPU that are there.
const PRESENT: usize = 4;
/// Speeds of the nodes, in percent of the fastest.
const SPEEDS_PCT: [u64; 3] = [100, 75, 47];
/// What a program wants of the compute engine, in percent, and its kernels.
const WANTS_PCT: std::ops::RangeInclusive<u64> = 1..=30;
const KERNELS_US: std::ops::RangeInclusive<u64> = 50..=5_000;
/// Choices of which the cost of each GPU is asked for, to compare.
const WHOLE: u64 = 200;

/// How much.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Settings {
    /// GPUs.
    pub gpus: usize,
    /// Nodes; the first ones have a GPU more if they cannot have as many.
    pub nodes: usize,
    /// Programs that start.
    pub starts: u64,
    /// Seed of what they want.
    pub seed: u64,
}

/// What a policy took.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub policy: &'static str,
    /// Time of a choice, in microseconds.
    pub mean_us: f64,
    /// The time that 99 of 100 choices do not exceed.
    pub p99_us: f64,
    /// The longest.
    pub longest_us: f64,
    /// GPUs of which the cost was asked for, on average.
    pub asked: f64,
    /// Mean time of a choice for which the cost of each GPU is asked for.
    pub whole_us: f64,
    /// Memory that the GPUs and their programs take, in bytes per GPU.
    pub bytes_per_gpu: f64,
}

/// All policies.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How much.
    pub settings: Settings,
    /// By policy.
    pub rows: Vec<Row>,
}

/// The GPUs and their programs.
struct Pool {
    node: Vec<usize>,
    speed: Vec<u64>,
    bound: Vec<Vec<Bound>>,
    sums: Vec<Sums>,
    /// The GPUs of the programs, in the order in which they started.
    started: VecDeque<usize>,
}

impl Pool {
    fn new(settings: &Settings) -> Self {
        let node = |gpu: usize| gpu * settings.nodes / settings.gpus;
        let nodes: Vec<_> = (0..settings.gpus).map(node).collect();
        let speed = |node: &usize| SPEEDS_PCT[node % SPEEDS_PCT.len()] * PPM / 100;
        Self {
            speed: nodes.iter().map(speed).collect(),
            node: nodes,
            bound: vec![Vec::new(); settings.gpus],
            sums: vec![Sums::default(); settings.gpus],
            started: VecDeque::new(),
        }
    }

    fn gpus(&self, local: usize) -> Vec<Gpu<'_>> {
        let gpu = |at: usize| Gpu {
            open: true,
            local: self.node[at] == local,
            speed: self.speed[at],
            bound: &self.bound[at],
        };
        (0..self.node.len()).map(gpu).collect()
    }

    /// Chooses with the sums of the GPUs.
    fn choose(
        &self,
        policy: Placement,
        newcomer: &Newcomer,
        local: usize,
        last: Option<usize>,
    ) -> Choice {
        let gpus = self.gpus(local);
        let none = Choice { at: 0, asked: 0 };
        many::choose(policy, &gpus, &self.sums, newcomer, last).unwrap_or(none)
    }

    /// A program starts; the one that has been there longest ends if there are enough.
    fn start(&mut self, at: usize, newcomer: &Newcomer) {
        let gpu = Gpu {
            open: true,
            local: true,
            speed: self.speed[at],
            bound: &[],
        };
        self.bound[at].push(Bound {
            demand: placement::on(&gpu, newcomer),
            left: newcomer.time,
        });
        self.sums[at] = Sums::of(&self.bound[at]);
        self.started.push_back(at);
        if self.started.len() > PRESENT * self.node.len() {
            if let Some(gpu) = self.started.pop_front() {
                // The programs of a GPU stand in the order of their starts.
                self.bound[gpu].remove(0);
                self.sums[gpu] = Sums::of(&self.bound[gpu]);
            }
        }
    }

    fn bytes(&self) -> usize {
        let bound = |of: &Vec<Bound>| size_of::<Vec<Bound>>() + of.capacity() * size_of::<Bound>();
        let each = size_of::<usize>() + size_of::<u64>() + size_of::<Sums>() + size_of::<Gpu<'_>>();
        let bound: usize = self.bound.iter().map(bound).sum();
        bound + each * self.node.len() + self.started.capacity() * size_of::<usize>()
    }
}

/// A program of random wants.
fn program(random: &mut Pcg64) -> Newcomer {
    let want = random.random_range(WANTS_PCT) * PPM / 100;
    Newcomer {
        demand: Demand {
            want,
            copy: random.random_range(0..=want / 2),
            run: Ns::from_us(random.random_range(KERNELS_US)),
            weight: Weight::DEFAULT,
        },
        known: true,
        time: Some(Ns::from_ms(random.random_range(1_000..=60_000))),
    }
}

fn row(policy: Placement, settings: &Settings) -> Row {
    let (mut pool, mut random) = (Pool::new(settings), Pcg64::seed_from_u64(settings.seed));
    let (mut last, mut times, mut asked) = (None, Vec::new(), 0usize);
    let mut whole = 0.0;
    // CAST: (all) counts and times that are exact in a double.
    let every = (settings.starts / WHOLE).max(1);
    for number in 0..settings.starts {
        let newcomer = program(&mut random);
        let local = random.random_range(0..settings.nodes);
        let begun = ThreadTime::now();
        let choice = pool.choose(policy, &newcomer, local, last);
        times.push(begun.elapsed().as_secs_f64() * 1e6);
        if number % every == every - 1 {
            let begun = ThreadTime::now();
            let all = placement::choose(policy, &pool.gpus(local), &newcomer, last);
            whole += begun.elapsed().as_secs_f64() * 1e6;
            debug_assert_eq!(all, Some(choice.at));
        }
        asked += choice.asked;
        last = Some(choice.at);
        pool.start(choice.at, &newcomer);
    }
    let mean_us = times.iter().sum::<f64>() / settings.starts as f64;
    times.sort_by(f64::total_cmp);
    Row {
        policy: policy.name(),
        mean_us,
        p99_us: times[(times.len() * 99).div_ceil(100) - 1],
        longest_us: times[times.len() - 1],
        asked: asked as f64 / settings.starts as f64,
        whole_us: whole / (settings.starts / every) as f64,
        bytes_per_gpu: pool.bytes() as f64 / settings.gpus as f64,
    }
}

/// Measures these policies.
///
/// # Errors
///
/// A setting makes no sense: what it is, and what would.
pub fn run(settings: Settings, policies: &[Placement]) -> Result<Report, String> {
    if settings.nodes == 0 || settings.nodes > settings.gpus {
        return Err(format!(
            "--nodes {}: want 1 to {}, the number of GPUs",
            settings.nodes, settings.gpus
        ));
    }
    if settings.starts == 0 {
        return Err("--starts 0: want at least 1".to_owned());
    }
    let rows = policies.iter().map(|policy| row(*policy, &settings));
    Ok(Report {
        rows: rows.collect(),
        settings,
    })
}

/// The report as a table.
pub fn text(report: &Report) -> String {
    let Settings {
        gpus,
        nodes,
        starts,
        ..
    } = report.settings;
    let mut text = format!(
        "{gpus} GPUs in {nodes} nodes, {PRESENT} programs on each, {starts} starts; time of a choice on one core\n\n"
    );
    let head = [
        "",
        "mean us",
        "99 of 100 us",
        "longest us",
        "GPUs asked",
        "all asked: us",
        "bytes per GPU",
    ];
    let mut table = crate::report::text::table(head);
    for row in &report.rows {
        let number = |of: f64| format!("{of:.1}");
        table.add_row([
            row.policy.to_owned(),
            number(row.mean_us),
            number(row.p99_us),
            number(row.longest_us),
            number(row.asked),
            number(row.whole_us),
            number(row.bytes_per_gpu),
        ]);
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", table.trim_fmt());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Settings = Settings {
        gpus: 60,
        nodes: 7,
        starts: 1_000,
        seed: 1,
    };

    #[test]
    fn memory_is_that_of_ten_times_as_many_gpus_and_programs_stay_as_many() {
        let more = Settings {
            gpus: 600,
            nodes: 70,
            starts: 10_000,
            ..SMALL
        };
        for policy in [Placement::Wait, Placement::Gmin] {
            let [few, many] = [SMALL, more].map(|settings| run(settings, &[policy]).unwrap());
            let ratio = many.rows[0].bytes_per_gpu / few.rows[0].bytes_per_gpu;
            assert!((0.8..1.25).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn programs_end_in_the_order_of_their_starts_and_stay_as_many() {
        let mut pool = Pool::new(&SMALL);
        let mut random = Pcg64::seed_from_u64(1);
        for number in 0..1_000 {
            pool.start(number % 60, &program(&mut random));
        }
        assert!(pool.bound.iter().all(|bound| bound.len() == PRESENT));
        assert!(pool
            .bound
            .iter()
            .zip(&pool.sums)
            .all(|(bound, sums)| Sums::of(bound) == *sums));
        assert_eq!((pool.node[0], pool.node[59]), (0, 6));
    }

    #[test]
    fn wait_asks_few_gpus_for_their_cost_and_says_so() {
        let report = run(SMALL, &[Placement::Wait, Placement::Gmin]).unwrap();
        assert!(report.rows[0].asked < 40.0, "{report:?}");
        assert!(report.rows[1].asked >= 60.0);
        assert!(text(&report).contains("60 GPUs in 7 nodes"));
    }

    #[test]
    fn nodes_without_gpus_and_no_starts_are_refused() {
        let nodes = Settings { nodes: 61, ..SMALL };
        let error = run(nodes, &[Placement::Wait]).unwrap_err();
        assert_eq!(error, "--nodes 61: want 1 to 60, the number of GPUs");
        let starts = Settings { starts: 0, ..SMALL };
        assert_eq!(run(starts, &[]).unwrap_err(), "--starts 0: want at least 1");
    }
}
