// SPDX-License-Identifier: GPL-2.0

//! Mixes of loads, by name.

use loga::units::{Ns, Weight};

/// What one client does: a kernel, wait for it, sleep, again.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Length of a kernel.
    pub kernel: Ns,
    /// Time between the end of a kernel and the submission of the next.
    pub sleep: Ns,
    /// Weight of the client.
    pub weight: Weight,
}

/// Clients that run together.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Name, in words.
    pub name: &'static str,
    /// The clients.
    pub loads: Vec<Load>,
}

/// A load in microseconds, with a weight.
///
/// # Panics
///
/// If no client can have that weight.
fn load(kernel_us: u64, sleep_us: u64, weight: u32) -> Load {
    Load {
        kernel: Ns::from_us(kernel_us),
        sleep: Ns::from_us(sleep_us),
        weight: Weight::new(weight).unwrap_or_else(|error| panic!("{error}")),
    }
}

/// One load and then `others` equal ones, all of the default weight.
fn one_and(name: &'static str, one: (u64, u64), others: usize, other: (u64, u64)) -> Mix {
    let mut loads = vec![load(one.0, one.1, 100)];
    loads.extend(vec![load(other.0, other.1, 100); others]);
    Mix { name, loads }
}

/// The mixes of the reference table.
pub fn all() -> Vec<Mix> {
    vec![
        one_and("1000/0 and three of 100/0", (1000, 0), 3, (100, 0)),
        one_and("1000/0 and one of 100/0", (1000, 0), 1, (100, 0)),
        one_and("1000/0 and three of 200/800", (1000, 0), 3, (200, 800)),
        one_and("200/0 and three of 100/900", (200, 0), 3, (100, 900)),
        Mix {
            name: "200/0 and 500/0, weights 3:1",
            loads: vec![load(200, 0, 300), load(500, 0, 100)],
        },
    ]
}

/// Ten more mixes, for what a default policy meets. The lengths are round numbers of
/// the order that the sources name.
pub fn more() -> Vec<Mix> {
    let mixed = |name, loads: &[(u64, u64, u32)]| Mix {
        name,
        loads: loads.iter().map(|l| load(l.0, l.1, l.2)).collect(),
    };
    vec![
        // LoGA paper, section 5.3: ten instances of throttle that hardly use the GPU.
        one_and("200/0 and ten of 10/1000", (200, 0), 10, (10, 1000)),
        // The same section: ten that nearly fill it together.
        one_and("500/0 and ten of 100/1000", (500, 0), 10, (100, 1000)),
        // Section 5.5: four of throttle beside an application.
        one_and("100/50 and four of 200/800", (100, 50), 4, (200, 800)),
        // A desktop of 60 frames per second beside batch work.
        one_and("1000/0 and one of 4000/12667", (1000, 0), 1, (4000, 12_667)),
        // A video decoder's filter, 25 frames per second, beside two batch jobs.
        mixed(
            "2 x 2000/0 and one of 3000/37000",
            &[(2000, 0, 100), (2000, 0, 100), (3000, 37_000, 100)],
        ),
        // Inference requests, training with long kernels.
        one_and("5000/0 and two of 500/4500", (5000, 0), 2, (500, 4500)),
        // Commands longer than a polling phase of a few clients.
        one_and("20000/0 and one of 1000/0", (20_000, 0), 1, (1000, 0)),
        // No client saturates the GPU, none needs to be throttled.
        one_and("300/700 and two of 200/800", (300, 700), 2, (200, 800)),
        // A light client of great weight beside two hogs.
        mixed(
            "500/0, 200/0 and 100/400 at 100:100:800",
            &[(500, 0, 100), (200, 0, 100), (100, 400, 800)],
        ),
        // Weights far apart, all saturating.
        mixed(
            "200/0 at 400, 300/0 and 100/0 at 100",
            &[(200, 0, 400), (300, 0, 100), (100, 0, 100)],
        ),
    ]
}
