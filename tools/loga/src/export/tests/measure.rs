// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the agent takes with 64 clients: time of the processor, whatever else runs there, and
//! memory. Without the calls of the kernel module, which a double answers.
//! `cargo test --release -p loga-cli --lib -- --ignored --nocapture scrape` prints the figures and judges
//! them: on a machine that does nothing else.

use super::{kernel, sampler};
use crate::control::Control;
use crate::export::text::Format;
use crate::history::keeper::Keeper;
use loga::uapi;
use nix::time::{clock_gettime, ClockId};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Readings and scrapes, after as many to warm up.
const ROUNDS: usize = 40;
/// Looks at events in a second.
const LOOKS: usize = 10;
/// What a scrape may take, and the agent in a second with one reading: half a percent of a core.
const SCRAPE: Duration = Duration::from_millis(5);
const SECOND: Duration = Duration::from_millis(5);
/// What the text may take, in bytes.
const MEMORY: u64 = 2_000_000;

/// Time of the processor that this thread had.
fn processor() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock"))
}

/// Memory of this process in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    let number: Option<u64> = number.and_then(|number| number.parse().ok());
    number.expect("a number") << 10
}

/// The middle one.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Readings and scrapes of so many processes, users and cgroups on each of so many GPUs: the times of
/// each, the text's length, and how much memory they took after as many to warm up.
fn measure(gpus: usize, each: u64, rounds: usize) -> (Duration, Duration, u64, u64) {
    let fake = kernel();
    for id in 0..each - 1 {
        fake.add_client(0, 100 + id, 1000 + id as u32);
        fake.add_total(0, uapi::SUBJECT_USER, 2000 + id, id + 1);
        fake.add_total(0, uapi::SUBJECT_CGROUP, 5000 + id, id + 1);
    }
    let one = fake.gpus.borrow()[0].clone();
    fake.gpus.borrow_mut().resize(gpus, one);
    let folder = tempfile::tempdir().expect("a folder");
    let (mut keeper, _) = Keeper::new(folder.path(), Path::new("/proc"));
    let open = || Ok(Control::over(&fake));
    let mut sampler = sampler(Some(64));
    let (mut seconds, mut scrapes, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut memory = 0;
    for round in 0..2 * rounds {
        if round == rounds {
            memory = resident();
            (seconds, scrapes) = (Vec::new(), Vec::new());
        }
        let begin = processor();
        sampler.tick_seen(&open, |readings| keeper.see(readings));
        keeper.listen(&open);
        for _ in 0..LOOKS {
            keeper.hear();
        }
        seconds.push(processor() - begin);
        let begin = processor();
        let text = sampler.latest().text(Format::OpenMetrics);
        bytes = text.expect("text").len() as u64;
        scrapes.push(processor() - begin);
    }
    let grown = resident().saturating_sub(memory);
    let (second, scrape) = (median(seconds), median(scrapes));
    println!(
        "{each} processes, users and cgroups on each of {gpus} GPUs: {} us a second, scrape {} us, {} KiB of text; {} KiB more after {rounds} rounds",
        second.as_micros(),
        scrape.as_micros(),
        bytes >> 10,
        grown >> 10,
    );
    (second, scrape, bytes, grown)
}

#[test]
#[ignore = "a measurement"]
fn scrape_of_64_clients_takes_little() {
    let (second, scrape, _, _) = measure(1, 64, ROUNDS);
    assert!(scrape < SCRAPE, "{scrape:?}");
    assert!(second < SECOND, "{second:?}");
}

#[test]
fn text_of_64_clients_is_bounded() {
    let (_, _, bytes, _) = measure(1, 64, 1);
    assert!(bytes < MEMORY, "{bytes}");
}

#[test]
#[ignore = "a minute: cargo test --release -p loga-cli --lib -- --ignored --nocapture ten_thousand"]
fn ten_thousand_scrapes_of_eight_gpus_take_little_and_leave_nothing() {
    // Eight times what is asked for, for its figures.
    measure(8, 64, ROUNDS);
    let (second, scrape, bytes, grown) = measure(8, 8, 5_000);
    assert!(scrape < SCRAPE, "{scrape:?}, {second:?}");
    assert!(second < SECOND, "{scrape:?}, {second:?}");
    assert!(bytes < MEMORY, "{bytes}");
    // A page here and there; one byte lost in each would be more.
    assert!(grown < 64 << 10, "{grown}");
}
