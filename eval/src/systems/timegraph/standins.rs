// SPDX-License-Identifier: GPL-2.0

//! Stand-ins for the programs of the paper: what they do on CPU and GPU, in microseconds.

use crate::scenario::{Client, Engagement, Phase, Promise, Span};
use loga::engaged::{Kind, Mode, Prio, Terms};
use loga::units::Ns;

/// Queue of a bomb, and of an engine that does not wait for each kernel.
const DEEP: u32 = 16;

/// Time on a CPU.
fn cpu(us: u64) -> Phase {
    Phase {
        cpu: Span::us(us),
        copy: None,
        kernel: None,
        depth: 1,
        repeat: 1,
    }
}

/// Kernels that are queued and waited for at the end.
fn kernels(count: u64, us: (u64, u64)) -> Phase {
    Phase {
        // CAST: a few thousand microseconds.
        kernel: Some(Span::uniform_us(us.0 as f64, us.1 as f64)),
        depth: DEEP,
        repeat: count,
        ..cpu(0)
    }
}

/// A game (OpenArena): 50 frames per second alone, 80 % of the GPU.
pub(super) fn game() -> Client {
    Client::new("game", vec![cpu(4000), kernels(16, (500, 1500))])
}

/// A rendering benchmark (Engine) with this time on a CPU per frame: with 6000, 100 frames per second
/// alone and 40 % of the GPU.
pub(super) fn engine(name: &str, cpu_us: u64) -> Client {
    Client::new(name, vec![cpu(cpu_us), kernels(4, (950, 1050))])
}

/// A program that always has long commands queued (Clearspd).
pub(super) fn bomb(name: &str) -> Client {
    Client::new(name, vec![kernels(1000, (4750, 5250))])
}

/// Five of them.
pub(super) fn bombs() -> Vec<Client> {
    (1..=5).map(|at| bomb(&format!("bomb-{at}"))).collect()
}

/// A video player (MPlayer): 24 frames per second, 7 % of the GPU; a frame is late after its cycle.
pub(super) fn player() -> Client {
    let cycle = Ns::from_us(41_667);
    Client {
        cycle: Some(cycle),
        deadline: Some(cycle),
        ..Client::new("player", vec![cpu(8000), kernels(3, (800, 1200))])
    }
}

/// Kernels of one length, with a queue of 32.
pub(super) fn queued(us: u64) -> Client {
    let phase = Phase {
        depth: 32,
        ..kernels(1000, (us, us))
    };
    Client::new("queued", vec![phase])
}

/// With a priority and a mode.
pub(super) fn of(prio: Prio, mode: Mode, client: Client) -> Client {
    let engaged = Engagement {
        prio,
        mode,
        ..client.engaged
    };
    Client { engaged, ..client }
}

/// With a promise.
pub(super) fn with(promise: Promise, client: Client) -> Client {
    let engaged = Engagement {
        promise: Some(promise),
        ..client.engaged
    };
    Client { engaged, ..client }
}

/// A hard reserve of so many microseconds.
///
/// # Panics
///
/// If it is out of range.
pub(super) fn terms(kind: Kind, capacity_us: u64, period_us: u64) -> Terms {
    // PANIC: those of the figures are in range, and tests make all figures.
    Terms::new(kind, Ns::from_us(capacity_us), Ns::from_us(period_us)).expect("in range")
}

/// A hard reserve of its own.
pub(super) fn own(kind: Kind, capacity_us: u64, period_us: u64) -> Promise {
    Promise::Own(terms(kind, capacity_us, period_us))
}

/// In percent.
pub(super) fn pct(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}
