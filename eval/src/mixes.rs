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
