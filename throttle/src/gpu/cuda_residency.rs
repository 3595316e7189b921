// SPDX-License-Identifier: GPL-2.0

//! `[tool]` On CUDA's driver library: a kernel with one thread on each multiprocessor, which notes when
//! it does not run.

use super::cuda::{compile, open_context, timer_step_ns, BODY};
use super::cuda_calls::{Context, Event, Function, Words};
use super::resident::Resident;
use crate::error::Error;
use crate::plan::Plan;
use crate::residency::{Gap, Notes};

const RESIDENCY: &str = include_str!("residency.ptx");

/// Gaps that a thread has room for in one round. With half a second of rounds that are all gaps and
/// pieces of 61 us, it is full; 64 KiB for each multiprocessor are copied after each round.
const ROOM: usize = 4096;
/// Words before a thread's gaps.
const HEAD: usize = 5;
/// Words of a gap.
const GAP: usize = 2;
/// No thread reads the timer more than once in this time: a loop around a read takes longer on every
/// device. It ends a round whose timer stands still.
const READ_NS: u64 = 4;

/// A device and the memory of its threads.
#[derive(Debug)]
pub(super) struct CudaResident {
    context: Context,
    function: Function,
    end: Event,
    words: Words,
    multiprocessors: u32,
    timer_step_ns: u64,
}

impl CudaResident {
    /// Opens the device and measures its timer.
    pub(super) fn open(plan: &Plan) -> Result<Self, Error> {
        let context = open_context(plan)?;
        let timer_step_ns = timer_step_ns(&context, &compile(&context, BODY)?)?;
        let function = context.function(&compile(&context, RESIDENCY)?, c"residency")?;
        let multiprocessors = context.multiprocessors()?;
        // CAST: an address space of 64 bits has room for the number.
        let count = (HEAD + GAP * ROOM).saturating_mul(multiprocessors as usize);
        Ok(CudaResident {
            end: context.event()?,
            words: context.words(count)?,
            context,
            function,
            multiprocessors,
            timer_step_ns,
        })
    }
}

impl Resident for CudaResident {
    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn timer_step_ns(&self) -> u64 {
        self.timer_step_ns
    }

    fn round(&mut self, length_ns: u64, gap_ns: u64) -> Result<Vec<Notes>, Error> {
        let reads = (length_ns / READ_NS).max(1);
        // CAST: a constant that fits.
        let numbers = [length_ns, gap_ns, reads, ROOM as u64];
        self.context
            .launch_on(self.function, self.multiprocessors, numbers, self.words)?;
        self.context.record(self.end)?;
        self.context.wait(self.end)?;
        let words = self.context.read_all(self.words)?;
        Ok(words.chunks_exact(HEAD + GAP * ROOM).map(notes).collect())
    }
}

/// What a thread left in its words.
fn notes(words: &[u64]) -> Notes {
    let (head, gaps) = words.split_at(HEAD.min(words.len()));
    let word = |at: usize| head.get(at).copied().unwrap_or_default();
    let gap = |pair: &[u64]| match pair {
        [before_ns, after_ns] => Gap {
            before_ns: *before_ns,
            after_ns: *after_ns,
        },
        _ => Gap::default(),
    };
    // CAST: a number that is too large leaves none out.
    let noted = word(0) as usize;
    Notes {
        // CAST: the device has 32-bit numbers of multiprocessors.
        multiprocessor: word(2) as u32,
        start_ns: word(3),
        end_ns: word(4),
        gaps: gaps.chunks_exact(GAP).take(noted).map(gap).collect(),
        dropped: word(1),
    }
}
