// SPDX-License-Identifier: GPL-2.0

//! Schedulers by name.

use loga::policies::dispatch::DispatcherKind;
use loga::policies::PolicyKind;

/// A scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// LoGA with this policy.
    Loga(PolicyKind),
    /// LoGA, which decides on each submission, with this dispatcher.
    Engaged(DispatcherKind),
    /// None: the GPU takes the channels in turn.
    Hardware,
    /// The host, command by command.
    PerCommand,
    /// One client at a time has the GPU, for seconds.
    Exclusive,
    /// One client at a time may submit, for equal times.
    GvimRr,
    /// The same, for times by weight.
    GvimXc,
    /// One client computes and one copies, in turn.
    Ps,
    /// The same two, those that were served least of late.
    LasEpoch,
    /// Each client is limited by tokens, which follow a sampled utilisation.
    TokenBucket,
}

/// The baselines by name.
const BASELINES: &[(&str, Kind)] = &[
    ("hardware", Kind::Hardware),
    ("per-command", Kind::PerCommand),
    ("exclusive", Kind::Exclusive),
    ("gvim-rr", Kind::GvimRr),
    ("gvim-xc", Kind::GvimXc),
    ("ps", Kind::Ps),
    ("las-epoch", Kind::LasEpoch),
    ("token-bucket", Kind::TokenBucket),
];

impl Kind {
    /// All of them: the policies of LoGA, its dispatchers, then the baselines.
    pub fn all() -> impl Iterator<Item = Self> {
        let loga = PolicyKind::ALL.iter().map(|kind| Self::Loga(*kind));
        let engaged = DispatcherKind::ALL.iter().map(|kind| Self::Engaged(*kind));
        loga.chain(engaged)
            .chain(BASELINES.iter().map(|(_, kind)| *kind))
    }

    /// Whether it exists in the simulator only.
    pub fn is_baseline(self) -> bool {
        !matches!(self, Self::Loga(_) | Self::Engaged(_))
    }

    /// Why it cannot schedule a packed GPU if it is no baseline, and what can.
    pub(crate) fn on_packed(self) -> String {
        let names: Vec<_> = BASELINES.iter().map(|(name, _)| *name).collect();
        format!(
            "a packed GPU with policy {}, want one of {}: LoGA sees the programs of one context as one",
            self.name(),
            names.join(", ")
        )
    }

    /// The one with this name.
    ///
    /// # Errors
    ///
    /// What is wrong, with all names.
    pub fn by_name(name: &str) -> Result<Self, String> {
        Self::all().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::all().map(Self::name).collect();
            format!("unknown policy {name:?}, want one of {}", names.join(", "))
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loga(policy) => policy.name(),
            Self::Engaged(dispatcher) => dispatcher.name(),
            _ => BASELINES
                .iter()
                .find(|(_, kind)| *kind == self)
                .map_or("", |(name, _)| name),
        }
    }
}
