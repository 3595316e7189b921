// SPDX-License-Identifier: GPL-2.0

//! Stand-ins for the programs of the paper: what they do on CPU and GPU, in microseconds.
//!
//! A kernel of a stand-in is a command group of the paper, which its driver submits with one call
//! (section 2): the program builds the next group ([`BUILD_US`]) while the ones before it run, calls
//! again, and sleeps in that call under PRT until its turn comes (section 4.1). At the end of a frame
//! it waits for all of them. So no two groups pass through one window, but where a figure says so
//! ([`at_once`]).

use crate::scenario::{Client, Engagement, Phase, Promise, Span};
use loga::engaged::{Kind, Mode, Prio, Terms};
use loga::units::Ns;

/// Why a program above others does not reach its rate alone.
pub(super) const ENDS: &str =
    "Each time that it waits for its turn the engine is idle for some 60 us, as in the module: the \
     watcher sees the end, a thread is woken, stores again and is decided on. Under HT that is so \
     after four groups at most, whose common end is seen the later the more their lengths vary.";
/// Why kernels take less than what is promised.
pub(super) const CHARGED: &str =
    "A reserve is charged from the window of a submission until its end is read, which is 50 to 100 us \
     more than the group takes, so that kernels get as much less than was promised.";

/// Command groups of a program that are under way at most.
const DEEP: u32 = 16;
/// Time on a CPU in which a program builds a command group. Ours: the paper has none. It is longer than
/// a window is there, and hidden behind the groups that run before, so that a program alone is as fast
/// as without.
const BUILD_US: u64 = 100;

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

/// Kernels that are built one after the other, and waited for at the end.
fn kernels(count: u64, us: (u64, u64)) -> Phase {
    Phase {
        // CAST: a few thousand microseconds.
        kernel: Some(Span::uniform_us(us.0 as f64, us.1 as f64)),
        depth: DEEP,
        repeat: count,
        ..cpu(BUILD_US)
    }
}

/// A frame: time on a CPU until its first kernel is there, and so many of these kernels.
fn frame(cpu_us: u64, count: u64, us: (u64, u64)) -> Vec<Phase> {
    vec![cpu(cpu_us - BUILD_US), kernels(count, us)]
}

/// A game (OpenArena): 50 frames per second alone, 80 % of the GPU.
pub(super) fn game() -> Client {
    Client::new("game", frame(4000, 16, (500, 1500)))
}

/// A rendering benchmark (Engine) with this time on a CPU per frame: with 6000, 100 frames per second
/// alone and 40 % of the GPU.
pub(super) fn engine(name: &str, cpu_us: u64) -> Client {
    Client::new(name, frame(cpu_us, 4, (950, 1050)))
}

/// The same program with a whole frame built before its first kernel is submitted, as the engines that
/// run on the model of a GPU (`tests/guest/src/timegraph.rs`).
pub(super) fn at_once(name: &str, cpu_us: u64) -> Client {
    let kernels = Phase {
        cpu: Span::us(0),
        ..kernels(4, (950, 1050))
    };
    Client::new(name, vec![cpu(cpu_us), kernels])
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
        ..Client::new("player", frame(8000, 3, (800, 1200)))
    }
}

/// Kernels of one length, each waited for, as under PRT every group of the paper is.
pub(super) fn waited_for(us: u64) -> Client {
    let phase = Phase::new(Span::us(0), Span::us(us));
    Client::new("kernels", vec![phase])
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

/// With a soft reserve for all that others leave that are promised a tenth: reserves come before clients
/// without one, and of the reserves the highest priority first.
pub(super) fn with_rest(client: Client) -> Client {
    let rest = Terms {
        hard: false,
        ..terms(Kind::Pe, 20_000, 25_000)
    };
    with(Promise::Own(rest), client)
}

/// In percent.
pub(super) fn pct(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}
