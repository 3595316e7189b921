// SPDX-License-Identifier: GPL-2.0

//! `[double]` A device that divides its time between this process and one other of the same kind.

/// Most that one multiprocessor sees a switch later than another, in ns.
const LATE_NS_MAX: u64 = 900;
/// Gaps of one round.
const GAPS_MAX: u64 = 1 << 20;

/// When the process is on the engine: slice number `n` begins after `n` periods of two slices and two
/// switches; jitter moves each of its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slices {
    pub(crate) slice_ns: u64,
    pub(crate) switch_ns: u64,
    pub(crate) phase_ns: u64,
    pub(crate) jitter_ns: u64,
}

/// One thread of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    /// When the round is launched, in ns.
    pub(crate) from_ns: u64,
    /// How long it reads the timer.
    pub(crate) length_ns: u64,
    /// Resolution of the timer.
    pub(crate) step_ns: u64,
    /// Number of its multiprocessor.
    pub(crate) multiprocessor: u64,
}

/// First and last read, and reads with nothing in between, in ns.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) gaps: Vec<(u64, u64)>,
}

impl Slices {
    fn period_ns(&self) -> u64 {
        2 * (self.slice_ns + self.switch_ns)
    }

    /// Begin and end of a slice as this multiprocessor sees them.
    fn slice(&self, number: u64, multiprocessor: u64) -> (u64, u64) {
        let begin_ns = number * self.period_ns();
        let seen = |ns: u64, edge: u64| {
            let switch = 2 * number + edge;
            // Of the switch itself, so the same for all multiprocessors; then of this one.
            let jitter_ns = scattered(switch, self.phase_ns) % (2 * self.jitter_ns + 1);
            let late_ns = scattered(switch, multiprocessor + 1) % (LATE_NS_MAX + 1);
            // A period ahead, so that jitter leads to no time before the beginning.
            (self.period_ns() + ns + jitter_ns + late_ns).saturating_sub(self.jitter_ns)
        };
        (seen(begin_ns, 0), seen(begin_ns + self.slice_ns, 1))
    }
}

/// What a thread reads; it begins when its process is on the engine, and ends with the first read
/// after its time. Without slices nothing takes it off the engine.
pub(crate) fn reads(slices: Option<&Slices>, thread: &Thread) -> Reads {
    let read = |ns: u64| ns / thread.step_ns * thread.step_ns;
    let Some(slices) = slices else {
        return Reads {
            start_ns: read(thread.from_ns),
            end_ns: read(thread.from_ns + thread.length_ns),
            gaps: Vec::new(),
        };
    };
    // The time that slices are numbered by.
    let moved_ns = slices.phase_ns + slices.period_ns();
    let slice = |number| slices.slice(number, thread.multiprocessor);
    let first = (thread.from_ns + slices.phase_ns) / slices.period_ns();
    let mut number = first.saturating_sub(2);
    while slice(number).1 <= thread.from_ns + moved_ns {
        number += 1;
    }
    let start_ns = slice(number).0.max(thread.from_ns + moved_ns);
    let end_ns = start_ns + thread.length_ns;
    let mut gaps = Vec::new();
    let mut last_ns = end_ns;
    for number in (number..).take(GAPS_MAX as usize) {
        let (before_ns, after_ns) = (slice(number).1, slice(number + 1).0);
        if before_ns >= end_ns {
            break;
        }
        gaps.push((read(before_ns - moved_ns), read(after_ns - moved_ns)));
        last_ns = end_ns.max(after_ns);
    }
    Reads {
        start_ns: read(start_ns - moved_ns),
        end_ns: read(last_ns - moved_ns),
        gaps,
    }
}

/// A number that depends on both, the same in every run.
fn scattered(number: u64, seed: u64) -> u64 {
    let mut value = number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(seed.wrapping_mul(0xd1b5_4a32_d192_ed03));
    for shift in [31, 29, 32] {
        value = (value ^ (value >> shift)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    value ^ (value >> 31)
}
