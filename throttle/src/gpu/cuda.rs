// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Kernels on CUDA's driver library.
//!
//! The PTX is written for the oldest architecture with the registers that it reads; the driver
//! compiles it for the card at hand. A driver that no longer takes so old a text gets the same one
//! with a later header.

use super::calibrate::calibrate;
use super::cuda_calls::{Context, Event, Function, Module, Word};
use super::queue::{time, Device};
use crate::error::Error;
use crate::lengths::Timer;
use crate::log::Span;
use crate::plan::{Plan, Wait};
use std::ffi::CString;

/// `.version` and `.target`, oldest first: Kepler, Maxwell, Turing, Hopper.
const HEADERS: [(&str, &str); 4] = [
    ("3.1", "sm_30"),
    ("4.0", "sm_50"),
    ("6.3", "sm_75"),
    ("7.8", "sm_90"),
];

/// The kernels that spin, and the one that finds the timer's step.
pub(super) const BODY: &str = include_str!("spin.ptx");

/// Reads of %globaltimer that find its smallest step: some milliseconds.
const STEP_READS: u64 = 200_000;
/// A coarser %globaltimer is not used, nor one of which more than a fortieth of a kernel is a step.
const STEP_NS_MAX: u64 = 2000;
const STEPS_PER_KERNEL: u64 = 40;
/// How far %globaltimer may be from nanoseconds by the device's events.
const TIMER_ERROR_MAX: f64 = 0.02;
/// Fewer than the launches that the driver queues before a launch waits.
const DEPTH_MAX: u32 = 512;

/// Age after which a base is replaced: the library gives times as `f32` of milliseconds, which are
/// finer than half a microsecond, its resolution, up to four seconds.
const BASE_NS_MAX: u64 = 4_000_000_000;

/// An event that has happened, from which others are timed.
#[derive(Clone, Copy, Debug)]
struct Base {
    event: Event,
    /// When it happened, in ns after the first base.
    at_ns: u64,
}

/// A device and its three ways to spin.
#[derive(Debug)]
pub(super) struct Cuda {
    context: Context,
    by_timer: Function,
    by_clock: Function,
    by_loop: Function,
    timer: Timer,
    /// Where the loop stores its last value.
    word: Word,
    /// Pairs of events that no kernel uses at the moment.
    free: Vec<Pair>,
    /// Where the device's clock begins, once that was asked for.
    base: Option<Base>,
}

/// Events before and after a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    start: Event,
    end: Event,
}

impl Cuda {
    /// Opens the device and decides what its kernels spin on.
    pub(super) fn open(plan: &Plan) -> Result<Self, Error> {
        let context = open_context(plan)?;
        let module = compile(&context, BODY)?;
        let by_timer = context.function(&module, c"spin_timer")?;
        let by_clock = context.function(&module, c"spin_clock")?;
        let by_loop = context.function(&module, c"spin_loop")?;
        let word = context.word()?;
        let mut cuda = Cuda {
            context,
            by_timer,
            by_clock,
            by_loop,
            timer: Timer::GlobalTimer,
            word,
            free: Vec::new(),
            base: None,
        };
        if cuda.context.preempts {
            // A timer counts the time of other clients in the middle of a kernel as the kernel's.
            cuda.timer = Timer::Loop;
        } else if !cuda.timer_is_good(&module, plan.kernel_us.saturating_mul(1000))? {
            cuda.timer = Timer::Clock64;
        }
        Ok(cuda)
    }

    /// Whether %globaltimer is fine enough for the kernel and counts nanoseconds.
    fn timer_is_good(&mut self, module: &Module, kernel_ns: u64) -> Result<bool, Error> {
        let step_ns = timer_step_ns(&self.context, module)?;
        if step_ns > STEP_NS_MAX.min(kernel_ns / STEPS_PER_KERNEL) {
            return Ok(false);
        }
        let found = calibrate(&mut |units| time(self, units))?;
        Ok((found.units_per_us / 1000.0 - 1.0).abs() <= TIMER_ERROR_MAX)
    }

    /// Events that no kernel uses.
    fn pair(&mut self) -> Result<Pair, Error> {
        match self.free.pop() {
            Some(pair) => Ok(pair),
            None => Ok(Pair {
                start: self.context.event()?,
                end: self.context.event()?,
            }),
        }
    }

    /// The base, which is made to happen if there is none.
    fn base(&mut self) -> Result<Base, Error> {
        if let Some(base) = self.base {
            return Ok(base);
        }
        let event = self.context.event()?;
        self.context.record(event)?;
        self.context.wait(event)?;
        let base = Base { event, at_ns: 0 };
        self.base = Some(base);
        Ok(base)
    }

    fn launch_one(&mut self, function: Function, units: u64) -> Result<Pair, Error> {
        let pair = self.pair()?;
        self.context.record(pair.start)?;
        self.context.launch(function, units, self.word)?;
        self.context.record(pair.end)?;
        Ok(pair)
    }
}

/// A context on the device of the plan.
pub(super) fn open_context(plan: &Plan) -> Result<Context, Error> {
    if std::env::var_os("CUDA_DEVICE_ORDER").is_none() {
        // Numbers devices as the driver's nodes are; by default CUDA puts the fastest first.
        std::env::set_var("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    Context::open(plan.gpu(), plan.wait == Wait::Block)
}

/// The smallest step of %globaltimer, by a kernel of [`BODY`]; all ones if it does not move.
pub(super) fn timer_step_ns(context: &Context, module: &Module) -> Result<u64, Error> {
    let step = context.function(module, c"timer_step")?;
    let (word, end) = (context.word()?, context.event()?);
    context.launch(step, STEP_READS, word)?;
    context.record(end)?;
    context.wait(end)?;
    context.read(word)
}

/// The module of a text under the first header that the driver takes.
pub(super) fn compile(context: &Context, body: &str) -> Result<Module, Error> {
    let mut refusal = None;
    for (version, target) in HEADERS {
        let text = format!(".version {version}\n.target {target}\n.address_size 64\n{body}");
        // PANIC: the text is a constant without a zero byte.
        let text = CString::new(text).expect("no zero byte");
        match context.compile(&text) {
            Ok(module) => return Ok(module),
            // The first one says most: the later ones fail on every old card.
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    // PANIC: there is at least one header.
    Err(refusal.expect("a refusal"))
}

impl Device for Cuda {
    type Kernel = Pair;

    fn timer(&self) -> Timer {
        self.timer
    }

    fn name(&self) -> String {
        self.context.name.clone()
    }

    fn library(&self) -> String {
        let version = self.context.version;
        format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
    }

    fn depth_max(&self) -> u32 {
        DEPTH_MAX
    }

    fn launch(&mut self, units: u64) -> Result<Pair, Error> {
        let function = match self.timer {
            Timer::GlobalTimer => self.by_timer,
            Timer::Clock64 => self.by_clock,
            Timer::Loop => self.by_loop,
        };
        self.launch_one(function, units)
    }

    fn ended(&mut self, kernel: &Pair) -> Result<bool, Error> {
        self.context.happened(kernel.end)
    }

    fn wait(&mut self, kernel: &Pair) -> Result<(), Error> {
        self.context.wait(kernel.end)
    }

    fn length_ns(&mut self, kernel: Pair) -> Result<u64, Error> {
        let length_ns = self.context.between_ns(kernel.start, kernel.end)?;
        self.free.push(kernel);
        Ok(length_ns)
    }

    fn span(&mut self, mut kernel: Pair) -> Result<Span, Error> {
        let base = self.base()?;
        let after_ns = self.context.between_ns(base.event, kernel.start)?;
        let length_ns = self.context.between_ns(kernel.start, kernel.end)?;
        let started_ns = base.at_ns.saturating_add(after_ns);
        if after_ns.saturating_add(length_ns) > BASE_NS_MAX {
            self.base = Some(Base {
                event: kernel.end,
                at_ns: started_ns.saturating_add(length_ns),
            });
            kernel.end = base.event;
        }
        self.free.push(kernel);
        Ok(Span {
            started_ns,
            length_ns,
        })
    }

    fn moment_ns(&mut self) -> Result<u64, Error> {
        let base = self.base()?;
        let pair = self.pair()?;
        self.context.record(pair.end)?;
        self.context.wait(pair.end)?;
        let after_ns = self.context.between_ns(base.event, pair.end)?;
        self.free.push(pair);
        Ok(base.at_ns.saturating_add(after_ns))
    }
}
