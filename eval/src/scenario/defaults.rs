// SPDX-License-Identifier: GPL-2.0

//! What a scheduler is like of which a scenario says no more: the defaults of the module, which are
//! in its table of knobs, or the parameters of the paper.

use super::file::{Between, Policy};
use super::kind::Kind;
use super::time::{Micros, Millis};
use loga::account::Accounting;
use loga::knobs::{Config, Scale};
use loga::units::Ns;

impl Policy {
    /// A scheduler, with the parameters of a file that gives none: the module's, but for what only
    /// scenarios have, and that decisions are carried out.
    pub fn of(kind: Kind) -> Self {
        let module = Config::default();
        Self {
            poll_ms: module.poll_ms,
            ratio: module.ratio,
            randomize: module.randomize,
            scale: module.scale,
            accounting: module.accounting,
            poll_always: module.poll_always,
            linger: Micros(Ns::from_us(module.linger_us.into())),
            linger_adapts: module.linger_adapts,
            ..Self::paper(kind)
        }
    }

    /// A scheduler with the parameters of the paper.
    pub const fn paper(kind: Kind) -> Self {
        Self {
            kind,
            dispatch: None,
            enforce: true,
            by: Between::Client,
            poll_ms: 1,
            ratio: 5,
            randomize: false,
            scale: Some(Scale::Channels),
            accounting: Some(Accounting::Burst),
            poll_always: false,
            trap: false,
            throttled_spins: false,
            cpu_boost: 1,
            submit: Micros(Ns::from_us(3)),
            interrupt: Micros(Ns::from_us(5)),
            decide: Micros(Ns::from_us(8)),
            enter: Micros(Ns::from_us(11)),
            grant: Micros(Ns::from_us(20)),
            close: Micros(Ns::from_us(13)),
            rouse: Micros(Ns::from_us(8)),
            look: Micros(Ns::from_us(10)),
            tick: Micros(Ns::ZERO),
            linger: Micros(Ns::ZERO),
            linger_adapts: false,
            quantum: Millis(Ns::from_ms(30_000)),
            turn: None,
            call: Micros(Ns::ZERO),
            idle_release: Millis(Ns::from_ms(5_000)),
            sample: Millis(Ns::from_ms(120)),
            off_when_alone: true,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::of(Kind::Loga(Config::default().policy))
    }
}
