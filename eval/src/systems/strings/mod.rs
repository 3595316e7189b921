// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Experiments of the Strings paper: on which GPU programs are placed.
//!
//! The programs are stand-ins. Of each, the paper has the part of its run time that it is on the
//! GPU, and the part of it that copies take (Table I); it has no run times but for "10 to 55 s" and
//! "less than 10 s", so these are assumed. All times are a hundredth of the assumed ones. GPUs are
//! not scheduled: they take programs in turn, as under Rain, the paper's system whose programs keep
//! their own contexts, or they are packed, as under Strings itself, which puts all programs of a GPU
//! into one context. Source: Sengupta and others, SC 2014, sections IV and V.

mod bursts;
mod devices;
mod feedback;
mod herd;
mod long;
mod nodes;
mod shares;
mod streams;

use super::figure::Experiment;
use crate::arrivals::PoolGpu;
use crate::scenario::{Client, Footprint, Phase, Span};
use crate::systems::figure::Length;
use loga::placement::PPM;
use loga::units::Ns;

/// The figures, with what is done in them.
pub(super) const FIGURES: &[Experiment] = &[
    (
        "strings-1",
        "Monte Carlo requests of one client, or of four that have as many together: the GPU's idle time",
        bursts::one_and_four,
    ),
    (
        "strings-9",
        "a stream of one program on a node of two GPUs, over all on the slow one",
        nodes::one_node,
    ),
    (
        "strings-10",
        "a stream of long programs to one node, of short ones to the other: GPUs of both, over own ones in turn",
        nodes::two_nodes,
    ),
    (
        "strings-11",
        "a long and a short program on one GPU, of equal weight: 24 pairs",
        shares::pairs_on_one_gpu,
    ),
    (
        "strings-12",
        "streams as in strings-10, placed by gwtmin, with a policy of the kernel on each GPU",
        devices::over_own,
    ),
    (
        "strings-13",
        "the same over the GPUs of both nodes in turn",
        devices::over_all,
    ),
    (
        "strings-14",
        "streams as in strings-10, placed by what programs of that name have used before",
        feedback::feedback,
    ),
    (
        "strings-15",
        "streams as in strings-10, placed by what programs copy and by their use of the memory",
        feedback::copies_and_memory,
    ),
    (
        "placing-herd",
        "200 programs start within 2 s, half of them unknown",
        herd::herd,
    ),
    (
        "placing-long",
        "light programs start beside long kernels or beside many short ones",
        long::long,
    ),
];

/// How many times shorter than the assumed ones times are, where no policy of the kernel runs.
const SHORTENED: u64 = 100;
/// Time of a kernel or of a copy, about, before it is shortened. Assumed. A tenth of it gives the
/// same figures.
const COMMAND_NS: f64 = 10_000_000.0;

/// All of a GPU's memory bandwidth: what HI uses. Assumed: a Tesla C2050 has ten times that, and then
/// no pair of programs would be bound by it.
const MOST_MB_S: f64 = 13_736.33;

/// An application of the paper.
#[derive(Clone, Copy, Debug)]
struct App {
    name: &'static str,
    /// Its run time in seconds. Assumed: group A takes 10 to 55 s, group B less than 10 s.
    time: f64,
    /// The part of it that it is on the GPU, in percent. Table I.
    gpu_pct: f64,
    /// The part of that in which it copies, in percent. Table I, where it must be a part of the
    /// time on the GPU: MC has 84.86 and 98.94 %.
    copy_pct: f64,
    /// What its kernels read and write, in MB/s. Table I.
    mb_s: f64,
    /// The part of a GPU's compute units that its kernels use alone. Assumed.
    fill: f64,
    /// How many times shorter all of that is simulated.
    shortened: u64,
}

const fn app(name: &'static str, time: f64, gpu_pct: f64, copy_pct: f64, mb_s: f64) -> App {
    App {
        name,
        time,
        gpu_pct,
        copy_pct,
        mb_s,
        fill: 1.0,
        shortened: SHORTENED,
    }
}

/// Long programs: DXT compression, scan, binomial options, matrix multiplication, histogram,
/// eigenvalues.
const GROUP_A: [App; 6] = [
    app("DC", 20.0, 89.31, 0.005, 63.14),
    app("SC", 12.0, 10.73, 24.99, 1193.03),
    app("BO", 25.0, 41.06, 98.88, 3764.44),
    app("MM", 30.0, 80.13, 0.01, 2143.26),
    app("HI", 40.0, 86.51, 0.17, 13736.33),
    app("EV", 55.0, 41.92, 0.73, 401.27),
];

/// Short programs: Black-Scholes, Monte Carlo, Gaussian elimination, sorting networks.
const GROUP_B: [App; 4] = [
    app("BS", 2.0, 24.51, 6.23, 50.23),
    app("MC", 8.0, 84.86, 98.94, 3047.32),
    app("GA", 3.0, 1.14, 0.32, 17.89),
    app("SN", 5.0, 2.05, 26.68, 320.35),
];

/// The GPUs of nodes A and B: Quadro 2000 and Tesla C2050, Quadro 4000 and Tesla C2070. Speeds are
/// ratios of the data sheets' single precision.
const GPUS: [PoolGpu; 4] = [gpu(0, 47), gpu(0, 100), gpu(1, 47), gpu(1, 100)];

const fn gpu(node: usize, speed_pct: u64) -> PoolGpu {
    PoolGpu {
        node,
        speed: speed_pct * PPM / 100,
        packed: false,
    }
}

/// Programs of each stream: 200 in runs of full length. The paper does not say how many.
const fn programs(length: Length) -> u64 {
    20 * length.seconds
}

/// What a run of the figure of this name is, if it is one of these.
pub(super) fn each(name: &str, length: Length) -> Option<String> {
    match name {
        "placing-herd" => Some(format!("{} programs", herd::STARTS)),
        "strings-11" => None,
        "strings-1" => Some(format!("{} requests", bursts::REQUESTS)),
        "placing-long" => Some(format!("{} light programs", long::LIGHT)),
        _ => FIGURES
            .iter()
            .any(|(known, ..)| *known == name)
            .then(|| format!("{} programs of each stream", programs(length))),
    }
}

impl App {
    /// The same with times shortened so many times.
    const fn shorter(self, shortened: u64) -> Self {
        Self { shortened, ..self }
    }

    /// The same with kernels that use this part of the compute units.
    const fn filling(self, fill: f64) -> Self {
        Self { fill, ..self }
    }

    /// Its time on the fastest GPU, in ns, and of that on the GPU, and of that copying.
    fn times(&self) -> [f64; 3] {
        // CAST: a small constant.
        let time = self.time * 1e9 / self.shortened as f64;
        let gpu = time * self.gpu_pct / 100.0;
        [time, gpu, gpu * self.copy_pct / 100.0]
    }

    /// A program. Between its commands, which all have one length, it computes for times that are
    /// exponential: assumed. Kernels and copies alternate, and of those that are more, several
    /// follow each other.
    fn client(&self) -> Client {
        let [time, gpu, copy] = self.times();
        let compute = gpu - copy;
        // CAST: a small constant.
        let command = COMMAND_NS / self.shortened as f64;
        let count = |of: f64| (of / command).ceil().max(1.0);
        let (kernels, copies) = (count(compute), count(copy));
        let both = kernels.min(copies);
        let more = (kernels.max(copies) / both).round();
        let rounds = both * more;
        let (kernel, copied) = match kernels < copies {
            true => (compute / both, copy / rounds),
            false => (compute / rounds, copy / both),
        };
        let cpu = Span::Exponential((time - gpu) / rounds);
        // CAST: positive; a few hundred thousand at most.
        let ns = |of: f64| Some(Span::Constant(Ns::new(of.round() as u64)));
        let first = Phase {
            cpu,
            copy: ns(copied),
            kernel: ns(kernel),
            depth: 1,
            repeat: 1,
        };
        let other = match kernels < copies {
            true => Phase {
                kernel: None,
                ..first
            },
            false => Phase {
                copy: None,
                ..first
            },
        };
        let others = Phase {
            // CAST: positive, as above.
            repeat: more as u64 - 1,
            ..other
        };
        let phases = if more > 1.0 {
            vec![first, others]
        } else {
            vec![first]
        };
        Client {
            channels: 2,
            // CAST: positive, as above.
            repeat: Some(both as u64),
            footprint: Footprint {
                fill: self.fill,
                bandwidth: self.mb_s / MOST_MB_S,
            },
            ..Client::new(self.name, phases)
        }
    }
}
