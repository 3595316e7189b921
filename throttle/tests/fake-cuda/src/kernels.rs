// SPDX-License-Identifier: GPL-2.0

//! `[double]` The kernels: what each does with its arguments, and how long that takes.

use crate::slices::{reads, Slices, Thread};
use crate::state::{setting, State};
use crate::{CYCLES_PER_US, INVALID_HANDLE, INVALID_VALUE, ROUNDS_PER_US};
use std::ffi::{c_int, c_uint, c_void};

/// Multiprocessors of a device.
pub const MULTIPROCESSORS: c_uint = 6;

/// Kernels by their handles.
pub(crate) const FUNCTIONS: [(usize, &str); 5] = [
    (0x41, "spin_timer"),
    (0x42, "spin_clock"),
    (0x43, "timer_step"),
    (0x44, "spin_loop"),
    (0x45, "residency"),
];

/// Words that a thread of the residency kernel has before its gaps, and words of a gap.
const HEAD: usize = 5;
const GAP: usize = 2;

/// Resolution of %globaltimer in ns.
fn step_ns() -> u64 {
    setting("FAKE_CUDA_STEP_NS", 32).max(1)
}

/// The other process, if the environment asks for it.
fn slices() -> Option<Slices> {
    let ns = |name| setting::<u64>(name, 0) * 1000;
    let slices = Slices {
        slice_ns: ns("FAKE_CUDA_SLICE_US"),
        switch_ns: ns("FAKE_CUDA_SWITCH_US"),
        phase_ns: ns("FAKE_CUDA_PHASE_US"),
        jitter_ns: ns("FAKE_CUDA_JITTER_US"),
    };
    (slices.slice_ns > 0).then_some(slices)
}

/// Runs a kernel in this many blocks.
///
/// # Safety
///
/// `arguments` must point at as many pointers to 64-bit numbers as the kernel has arguments.
pub(crate) unsafe fn launch(
    state: &mut State,
    function: usize,
    blocks: c_uint,
    arguments: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller vouches for the argument.
    let argument = |at| unsafe { (*arguments.add(at)).cast::<u64>().read() };
    let known = FUNCTIONS.iter().find(|(handle, _)| *handle == function);
    let Some((_, name)) = known else {
        return INVALID_HANDLE;
    };
    if *name == "residency" {
        let [length_ns, apart_ns, reads] = [0, 1, 2].map(argument);
        let [room, address] = [3, 4].map(argument);
        if blocks != MULTIPROCESSORS || reads == 0 {
            return INVALID_VALUE;
        }
        // CAST: the program asks for less than the memory of the machine.
        return residency(state, length_ns, apart_ns, room as usize, address);
    }
    if blocks != 1 {
        return INVALID_VALUE;
    }
    let units = argument(0);
    match *name {
        // CAST: some seconds fit.
        "spin_timer" => state.run((units as f64 / setting("FAKE_CUDA_TIMER", 1.0)) as u64),
        "spin_clock" => state.run(units * 1000 / CYCLES_PER_US),
        _ => {
            let Some([word]) = state.memory.get_mut(&argument(1)).map(Vec::as_mut_slice) else {
                return INVALID_VALUE;
            };
            if *name == "spin_loop" {
                return state.run(units * 1000 / ROUNDS_PER_US);
            }
            *word = step_ns();
            state.run(units)
        }
    }
}

/// One thread on each multiprocessor that notes when it does not run. Its time passes at once: what
/// waits for its end does not wait. It runs on a timeline of its own, on which only rounds take time,
/// so that they find the same in every run.
fn residency(state: &mut State, length_ns: u64, apart_ns: u64, room: usize, address: u64) -> c_int {
    let (from_ns, round) = (state.rounds_ns, state.rounds);
    let size = HEAD + GAP * room;
    let memory = state.memory.get_mut(&address);
    let Some(memory) = memory.filter(|all| all.len() == size * MULTIPROCESSORS as usize) else {
        return INVALID_VALUE;
    };
    let slices = slices();
    let mut last_ns = from_ns;
    for (block, words) in (0..).zip(memory.chunks_exact_mut(size)) {
        // Blocks come to other multiprocessors each time.
        let multiprocessor = (block + round) % u64::from(MULTIPROCESSORS);
        let thread = Thread {
            from_ns,
            length_ns,
            step_ns: step_ns(),
            multiprocessor,
        };
        let mut found = reads(slices.as_ref(), &thread);
        found
            .gaps
            .retain(|(before, after)| after - before > apart_ns);
        let noted = found.gaps.len().min(room);
        let dropped = found.gaps.len() - noted;
        let (head, gaps) = words.split_at_mut(HEAD);
        // CAST: a usize has 64 bits.
        let (noted, dropped) = (noted as u64, dropped as u64);
        head.copy_from_slice(&[noted, dropped, multiprocessor, found.start_ns, found.end_ns]);
        for (pair, (before_ns, after_ns)) in gaps.chunks_exact_mut(GAP).zip(found.gaps) {
            pair.copy_from_slice(&[before_ns, after_ns]);
        }
        last_ns = last_ns.max(found.end_ns);
    }
    (state.rounds_ns, state.rounds) = (last_ns, round + 1);
    state.run(last_ns - from_ns);
    state.skip();
    0
}
