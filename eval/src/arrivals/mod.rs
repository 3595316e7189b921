// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Programs that arrive one after the other and are placed on GPUs of several nodes.
//!
//! Each GPU is a [`World`](crate::world::World) with a scheduler of its own, or without one. All advance to the next arrival together; then
//! [`placement`](loga::placement) chooses a GPU with what is known at that time, and the program comes to its world.
//! A program is a client that repeats its phases a number of times and goes. The speed of a GPU
//! divides the lengths of kernels and copies.
//!
//! What is known of a program: of an application of which three runs have ended, their means, as
//! they would have been alone on the fastest GPU; of a program that runs, what it used of the time
//! for which it did not wait, with the past fading. The placer is told at once when a program ends.

mod incoming;
mod known;
mod mbf;
mod pool;
mod program;
#[cfg(test)]
mod tests;

use crate::control::awake::Awake;
use crate::control::engaged::Engaged;
use crate::control::exclusive::Exclusive;
use crate::control::gvim::Gvim;
use crate::control::hardware::Hardware;
use crate::control::loga::Loga;
use crate::control::per_command::PerCommand;
use crate::control::token_bucket::TokenBucket;
use crate::outcome::Error;
use crate::scenario::{Costs, Kind, Policy};
pub use incoming::{alone, arrivals, Incoming};
pub(crate) use known::{cheapest, newcomer, Record, Signals};
use pool::Pool;
pub use program::{Arrival, Chooser, Knows, Placed, PoolGpu, Rule};

/// Runs all programs, which are in the order of their arrivals, on GPUs without a scheduler.
///
/// # Errors
///
/// A program does not end, or an oracle says that the run does not count.
pub fn run(
    places: &[PoolGpu],
    arrivals: &[Arrival],
    rule: Rule,
    seed: u64,
) -> Result<Vec<Placed>, Error> {
    let none = Policy::paper(Kind::Hardware);
    run_under(places, arrivals, rule, &none, seed)
}

/// The same with a scheduler on each GPU.
///
/// # Errors
///
/// As [`run`], a setting is out of range, or LoGA is on a packed GPU.
pub fn run_under(
    places: &[PoolGpu],
    arrivals: &[Arrival],
    rule: Rule,
    policy: &Policy,
    seed: u64,
) -> Result<Vec<Placed>, Error> {
    let costs = Costs::default();
    let wakeup = costs.wakeup.0.get();
    let pool = (places, arrivals, rule, seed);
    if places.iter().any(|place| place.packed) && !policy.kind.is_baseline() {
        return Err(Error::Packed(policy.kind));
    }
    match policy.kind {
        Kind::Loga(kind) => Pool::run(pool, |gpu, clients| {
            // CAST: a few GPUs.
            let seed = seed.wrapping_mul(64).wrapping_add(gpu as u64);
            Loga::new(kind, policy, &costs, clients, seed).map_err(Error::Setting)
        }),
        Kind::Hardware => Pool::run(pool, |_, _| Ok(Hardware)),
        Kind::PerCommand => Pool::run(pool, |_, clients| Ok(PerCommand::new(clients, policy))),
        Kind::Exclusive => Pool::run(pool, |_, clients| {
            Ok(Exclusive::new(clients, policy, wakeup))
        }),
        Kind::GvimRr | Kind::GvimXc => Pool::run(pool, |_, clients| {
            let weighted = policy.kind == Kind::GvimXc;
            Ok(Gvim::new(clients, policy, weighted, wakeup))
        }),
        Kind::Ps | Kind::LasEpoch => Pool::run(pool, |_, clients| {
            let least = policy.kind == Kind::LasEpoch;
            Ok(Awake::new(clients, policy, least, wakeup))
        }),
        Kind::TokenBucket => Pool::run(pool, |_, clients| {
            Ok(TokenBucket::new(clients, policy, wakeup))
        }),
        Kind::Engaged(kind) => Pool::run(pool, |_, clients| {
            Engaged::new(kind, policy, clients, &[]).map_err(Error::Setting)
        }),
    }
}
