// SPDX-License-Identifier: GPL-2.0

//! `[double]` A GPU whose programs share one context, as under Strings or MPS: kernels of several
//! programs run at the same time.
//!
//! It has compute units and memory bandwidth, and each program's kernels say which parts of both they
//! use while they run alone ([`Footprint`]). Kernels that run at the same time share both, max-min
//! fair: a kernel runs as fast as the lesser of its parts lets it, and compute units that a kernel
//! cannot use because it waits for memory are others'. With kernels that fill the GPU this is
//! processor sharing. A program's kernels run in their order, one at a time; copies of all programs
//! run one after the other. No context is switched.

use crate::scenario::Footprint;
use loga_model::gpu::GR;
use std::collections::VecDeque;

/// A kernel with less left than this, in ns, has ended.
const ENDED: f64 = 1e-3;

/// A program's kernels.
#[derive(Clone, Debug, Default)]
struct Stream {
    footprint: Footprint,
    /// Lengths alone; the first one runs.
    kernels: VecDeque<u64>,
    /// What is left of the first one, in ns alone.
    left: f64,
}

/// The engines of the GPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    streams: Vec<Stream>,
    /// Programs with a kernel that runs, and how fast, at most 1.
    running: Vec<(usize, f64)>,
    /// Programs and lengths of copies; the first one runs up to `copied`.
    copies: VecDeque<(usize, u64)>,
    copied: u64,
    /// Up to when kernels have progressed.
    at: u64,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) client: usize,
    pub(super) is_kernel: bool,
    /// How long it takes alone.
    pub(super) length: u64,
}

impl Packed {
    /// For programs with these kernels.
    pub(super) fn new(footprints: impl Iterator<Item = Footprint>) -> Self {
        let stream = |footprint| Stream {
            footprint,
            ..Stream::default()
        };
        Self {
            streams: footprints.map(stream).collect(),
            ..Self::default()
        }
    }

    /// A program submits a command now; those that are due have ended.
    pub(super) fn submit(&mut self, client: usize, engine: usize, length: u64, now: u64) {
        if engine != GR {
            if self.copies.is_empty() {
                self.copied = now.saturating_add(length);
            }
            self.copies.push_back((client, length));
            return;
        }
        self.progress(now);
        let stream = &mut self.streams[client];
        stream.kernels.push_back(length);
        if stream.kernels.len() == 1 {
            // CAST: lengths of commands are exact in a double.
            stream.left = length as f64;
            self.running.push((client, 0.0));
            self.share();
        }
    }

    /// Whether a kernel runs.
    pub(super) fn computes(&self) -> bool {
        !self.running.is_empty()
    }

    /// A command that has ended by now, if there is one.
    pub(super) fn end(&mut self, now: u64) -> Option<Ended> {
        if let Some((client, length)) = self.copies.front().copied() {
            if self.copied <= now {
                self.copies.pop_front();
                let next = self.copies.front().map_or(0, |next| next.1);
                self.copied = self.copied.saturating_add(next);
                return Some(Ended {
                    client,
                    is_kernel: false,
                    length,
                });
            }
        }
        self.progress(now);
        let ended = |(client, _): &(usize, f64)| self.streams[*client].left < ENDED;
        let at = self.running.iter().position(ended)?;
        let client = self.running[at].0;
        let stream = &mut self.streams[client];
        let length = stream.kernels.pop_front().unwrap_or(0);
        match stream.kernels.front() {
            // CAST: as above.
            Some(next) => stream.left = *next as f64,
            None => {
                self.running.remove(at);
                self.share();
            }
        }
        Some(Ended {
            client,
            is_kernel: true,
            length,
        })
    }

    /// When the next command ends, if none is submitted before.
    pub(super) fn due(&self) -> Option<u64> {
        let kernels = self.running.iter().map(|(client, rate)| {
            // CAST: positive; saturates.
            let rest = (self.streams[*client].left / rate).ceil() as u64;
            self.at.saturating_add(rest.max(1))
        });
        let copy = (!self.copies.is_empty()).then_some(self.copied);
        kernels.chain(copy).min()
    }

    /// Lets kernels run up to now.
    fn progress(&mut self, now: u64) {
        // CAST: times in a run are exact in a double.
        let passed = now.saturating_sub(self.at) as f64;
        self.at = now;
        for (client, rate) in &self.running {
            let stream = &mut self.streams[*client];
            stream.left = (stream.left - passed * rate).max(0.0);
        }
    }

    /// Shares the compute units and the bandwidth between the kernels that run.
    fn share(&mut self) {
        let of = |client: usize| self.streams[client].footprint;
        let fills: Vec<f64> = self.running.iter().map(|one| of(one.0).fill).collect();
        let widths: Vec<f64> = self.running.iter().map(|one| of(one.0).bandwidth).collect();
        let rates = rates(&fills, &widths);
        for ((_, rate), shared) in self.running.iter_mut().zip(rates) {
            *rate = shared;
        }
    }
}

/// How fast kernels run, alone 1, that alone use these parts of the compute units and of the
/// bandwidth. What the memory keeps from the first filling of the compute units is filled again.
fn rates(fills: &[f64], widths: &[f64]) -> Vec<f64> {
    let computing = limited(fills, &vec![1.0; fills.len()]);
    let first = limited(widths, &computing);
    if first == computing {
        return first;
    }
    // Those that memory slows down keep what they have; the others may have more.
    let most = first.iter().zip(&computing).map(|(first, computing)| {
        let slowed = first < computing;
        if slowed {
            *first
        } else {
            1.0
        }
    });
    let again = limited(fills, &most.collect::<Vec<_>>());
    limited(widths, &again)
}

/// Rates of at most `most` at which these needs of a resource of 1 are met, max-min fair.
fn limited(needs: &[f64], most: &[f64]) -> Vec<f64> {
    let wants: Vec<f64> = needs
        .iter()
        .zip(most)
        .map(|(need, most)| need * most)
        .collect();
    if wants.iter().sum::<f64>() <= 1.0 {
        return most.to_vec();
    }
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by(|one, other| wants[*one].total_cmp(&wants[*other]));
    let (mut left, mut rates) = (1.0, most.to_vec());
    for (place, at) in order.iter().enumerate() {
        // CAST: a count.
        let part = wants[*at].min(left / (order.len() - place) as f64);
        left -= part;
        if part < wants[*at] {
            rates[*at] = part / needs[*at];
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use loga_model::gpu::CE0;

    fn near(of: &[f64], to: &[f64]) -> bool {
        of.len() == to.len() && of.iter().zip(to).all(|(of, to)| (of - to).abs() < 1e-9)
    }

    #[test]
    fn kernels_that_fill_the_gpu_share_it_equally() {
        assert_eq!(rates(&[1.0], &[0.0]), [1.0]);
        assert!(near(&rates(&[1.0; 3], &[0.0; 3]), &[1.0 / 3.0; 3]));
    }

    #[test]
    fn kernels_that_leave_room_run_at_the_same_time_and_small_ones_have_what_they_need() {
        assert_eq!(rates(&[0.5, 0.5], &[0.0; 2]), [1.0, 1.0]);
        // A quarter, and half of what is left for each of the others.
        let three = rates(&[0.25, 1.0, 1.0], &[0.0; 3]);
        assert!(near(&three, &[1.0, 0.375, 0.375]), "{three:?}");
    }

    #[test]
    fn memory_bounds_kernels_and_what_they_cannot_compute_is_others() {
        // Two that need all of the bandwidth have half of it each, whatever they compute.
        assert!(near(&rates(&[0.3, 0.3], &[1.0; 2]), &[0.5; 2]));
        // Of three, the two run at a half by memory: 0.3 of the units are left to the third.
        let three = rates(&[0.7, 0.7, 1.0], &[1.0, 1.0, 0.0]);
        assert!(
            near(&three, &[1.0 / 2.1, 1.0 / 2.1, 1.0 / 3.0]),
            "{three:?}"
        );
        let bound = rates(&[0.6, 0.6], &[1.0, 0.2]);
        // Halves of the units are 0.83 of both kernels: 1.0 of the bandwidth.
        assert!(near(&bound, &[5.0 / 6.0; 2]), "{bound:?}");
        // 5/6 and a half by units; by memory 0.75 and a half, so that the second may have 0.55 of the
        // units, and 0.725 are left to the first.
        let bound = rates(&[0.6, 1.0], &[1.0, 0.5]);
        assert!(near(&bound, &[0.725, 0.55]), "{bound:?}");
    }

    /// All that ends, and when.
    fn ends(packed: &mut Packed) -> Vec<(u64, usize)> {
        let mut ends = Vec::new();
        while let Some(due) = packed.due() {
            while let Some(ended) = packed.end(due) {
                ends.push((due, ended.client));
            }
        }
        ends
    }

    #[test]
    fn kernels_end_as_under_processor_sharing() {
        let mut packed = Packed::new([Footprint::default(); 2].into_iter());
        packed.submit(0, GR, 1_000, 0);
        packed.submit(1, GR, 3_000, 500);
        // 500 left for each other 500: at 1500. The second has 2500 left then.
        assert_eq!(ends(&mut packed), [(1_500, 0), (4_000, 1)]);
    }

    #[test]
    fn copies_run_one_after_the_other_beside_kernels_and_a_programs_kernels_in_order() {
        let mut packed = Packed::new([Footprint::default(); 2].into_iter());
        packed.submit(0, CE0, 100, 0);
        packed.submit(1, CE0, 100, 0);
        packed.submit(0, GR, 50, 0);
        packed.submit(0, GR, 50, 0);
        assert!(packed.computes());
        assert_eq!(ends(&mut packed), [(50, 0), (100, 0), (100, 0), (200, 1)]);
        assert!(!packed.computes());
    }
}
