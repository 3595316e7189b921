// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The knobs of LoGA, in one table.
//!
//! The table makes [`Config`], which holds a value of each. From [`KNOBS`], which describes them,
//! follow the parameters of the module, the files in `/sys/class/misc/loga/gpu<N>`, the numbers in
//! `/dev/loga`, the options of `loga policy set` and `docs/knobs.md`.
//!
//! A number in `/dev/loga` is the number itself, 0 or 1 for a switch, or the position of a word
//! among its words. So new knobs and new words go to the end.

use crate::account::Accounting;
use crate::error::Error;
use crate::names::{named, Kind, Value};
use crate::policies::dispatch::DispatcherKind;
use crate::policies::{Inputs, PolicyKind};
use crate::regs::Source;
use crate::share::{GroupBy, MAX_LEVELS};
use core::fmt;

/// One knob.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Its name, everywhere.
    pub name: &'static str,
    /// Its values.
    pub kind: Kind,
    /// Its default, as a user writes it.
    pub default: &'static str,
    /// What it sets, in one sentence without a full stop.
    pub about: &'static str,
    /// Whether it can be changed for each GPU while LoGA runs.
    pub live: bool,
    /// The number of its value.
    pub get: fn(&Config) -> u32,
    set: fn(&mut Config, u32),
}

impl Knob {
    /// The knob with this name and its position in [`KNOBS`].
    pub fn find(name: &str) -> Option<(usize, &'static Self)> {
        KNOBS.iter().enumerate().find(|(_, knob)| knob.name == name)
    }

    /// The number of a value that a user has written.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn parse(&self, text: &str) -> Result<u32, Error> {
        match self.kind {
            Kind::Switch => match text {
                "0" | "off" | "n" | "N" => Ok(0),
                "1" | "on" | "y" | "Y" => Ok(1),
                _ => Err(self.unknown(&["0", "1"])),
            },
            Kind::Number { min, max } => {
                let number = text.parse().map_err(|_| Error::NotANumber {
                    setting: self.name,
                    min: min.into(),
                    max: max.into(),
                })?;
                self.check(number)?;
                Ok(number)
            }
            Kind::Word(words) => {
                let at = words.iter().position(|word| *word == text);
                let at = at.ok_or_else(|| self.unknown(words))?;
                // CAST: a small number.
                Ok(at as u32)
            }
        }
    }

    /// Whether a number is that of a value.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn check(&self, number: u32) -> Result<(), Error> {
        let (min, max) = match self.kind {
            Kind::Switch => (0, 1),
            Kind::Number { min, max } => (min, max),
            // CAST: a small number.
            Kind::Word(words) => (0, words.len().saturating_sub(1) as u32),
        };
        crate::error::in_range(self.name, number.into(), min.into(), max.into())
    }

    /// Sets it.
    ///
    /// # Errors
    ///
    /// As [`Knob::check`]; then nothing is set.
    pub fn set(&self, config: &mut Config, number: u32) -> Result<(), Error> {
        self.check(number)?;
        (self.set)(config, number);
        Ok(())
    }

    /// The value with this number, as a user writes it.
    pub fn written(&self, number: u32) -> Written {
        let word = match self.kind {
            Kind::Word(words) => words.get(number as usize).copied(),
            Kind::Switch | Kind::Number { .. } => None,
        };
        Written { number, word }
    }

    const fn unknown(&self, names: &'static [&'static str]) -> Error {
        Error::UnknownName {
            setting: self.name,
            names,
        }
    }
}

/// A value as a user writes it.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    number: u32,
    word: Option<&'static str>,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.word {
            Some(word) => f.write_str(word),
            None => write!(f, "{}", self.number),
        }
    }
}

named! {
    /// What the phases grow with.
    pub enum Scale of "scale" {
        /// With the clients that used the GPU, or wanted to, in the last polling phase; as for
        /// [`MIN_ACTIVE`](crate::engine::MIN_ACTIVE) if there were fewer.
        #[default]
        Active = "active",
        /// With the allocated channels, as in the paper.
        Channels = "channels",
    }
}

named! {
    /// Which threads poll.
    pub enum Poller of "poller" {
        /// A thread for each GPU.
        #[default]
        PerGpu = "per-gpu",
        /// One thread for all, one GPU at a time.
        Shared = "shared",
    }
}

/// Declares the knobs. `live` ones can be changed while LoGA runs, `load` ones are parameters of
/// the module only. The range of a number follows its default.
macro_rules! knobs {
    ($(
        #[doc = $about:literal]
        $when:ident $name:ident: $type:ty = $default:literal $(, $min:literal to $max:expr)?;
    )+) => {
        /// Settings of one GPU: a value of each knob.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Config {
            $(#[doc = $about] pub $name: $type,)+
            /// What the caller supplies of what policies need.
            pub inputs: Inputs,
        }

        /// All knobs, in the order of their numbers.
        pub const KNOBS: &[Knob] = &[$(
            Knob {
                name: stringify!($name),
                kind: knobs!(@kind $type $(, $min, $max)?),
                default: $default,
                about: $about.trim_ascii_start(),
                live: knobs!(@$when),
                get: |config| config.$name.number(),
                set: |config, number| {
                    config.$name = Value::of(number).unwrap_or(config.$name);
                },
            },
        )+];

        /// Their names.
        pub const NAMES: &[&str] = &[$(stringify!($name)),+];

        impl Config {
            fn unset() -> Self {
                Self {
                    $($name: Value::FIRST,)+
                    inputs: Inputs::Cpu,
                }
            }
        }
    };
    (@kind $type:ty) => { <$type as Value>::KIND };
    (@kind $type:ty, $min:literal, $max:expr) => { Kind::Number { min: $min, max: $max } };
    (@live) => { true };
    (@load) => { false };
}

knobs! {
    /// Policy that decides which clients are throttled
    live policy: PolicyKind = "maxmin";
    /// Carry decisions out; otherwise LoGA only accounts
    live enforce: bool = "0";
    /// Polling phase per active client or allocated channel (see scale), in milliseconds
    live poll_ms: u32 = "1", 1 to 1000;
    /// Length of the non-polling phase in polling phases
    live ratio: u32 = "5", 1 to 1000;
    /// Vary the lengths of phases around the same mean
    live randomize: bool = "1";
    /// What the GPU is divided between
    live group_by: GroupBy = "process";
    /// Level of the cgroups that group_by=cgroup divides between; 0: the nearest one with a weight
    live cgroup_depth: u32 = "0", 0 to MAX_CGROUP_DEPTH;
    /// How GPU time is measured: in polling phases (burst) or by reads at random instants (sparse)
    live accounting: Option<Accounting> = "auto";
    /// What phases grow with: active clients, which needs randomize=1, or allocated channels
    live scale: Option<Scale> = "auto";
    /// Registers that are polled
    load source: Source = "engine-status";
    /// No non-polling phases: exact accounting at the price of a processor
    load poll_always: bool = "0";
    /// Which threads poll: one for each GPU, or one for all, one GPU at a time
    load poller: Poller = "per-gpu";
    /// Decide on each submission before it reaches the GPU: which of those that wait is first
    live dispatch: Option<DispatcherKind> = "none";
    /// With dispatch: microseconds for which the engine is kept free after work of protected clients
    live linger_us: u32 = "0", 0 to MAX_LINGER_US;
    /// With linger_us: keep it free only as long as their pauses last, a fifth of the time at most
    live linger_adapts: bool = "0";
}

/// Largest [`Config::cgroup_depth`].
// CAST: a small number.
pub const MAX_CGROUP_DEPTH: u32 = MAX_LEVELS as u32 - 1;

/// Largest [`Config::linger_us`].
pub const MAX_LINGER_US: u32 = 5_000;

impl Default for Config {
    /// The defaults of the table.
    fn default() -> Self {
        let mut config = Self::unset();
        for knob in KNOBS {
            if let Ok(number) = knob.parse(knob.default) {
                (knob.set)(&mut config, number);
            }
        }
        config
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_knobs))]
mod tests {
    use super::*;

    #[test]
    fn default_of_every_knob_is_a_value_of_it() {
        let config = Config::default();
        for knob in KNOBS {
            assert_eq!(knob.parse(knob.default), Ok((knob.get)(&config)));
        }
        assert_eq!(config.policy, PolicyKind::MaxMin);
        assert!(config.randomize);
        assert!(!config.enforce);
        assert!(!config.poll_always);
        assert_eq!((config.poll_ms, config.ratio), (1, 5));
        assert_eq!((config.accounting, config.scale), (None, None));
    }

    #[test]
    fn number_of_every_value_sets_that_value_and_no_other_knob() {
        for knob in KNOBS {
            let (min, max) = match knob.kind {
                Kind::Switch => (0, 1),
                Kind::Number { min, max } => (min, max),
                Kind::Word(words) => (0, words.len() as u32 - 1),
            };
            for number in [min, max] {
                let mut config = Config::default();
                assert_eq!(knob.set(&mut config, number), Ok(()));
                assert_eq!((knob.get)(&config), number);
                for other in KNOBS.iter().filter(|other| other.name != knob.name) {
                    assert_eq!((other.get)(&config), (other.get)(&Config::default()));
                }
            }
            let mut config = Config::default();
            assert!(knob.set(&mut config, max + 1).is_err());
            assert_eq!(config, Config::default());
        }
    }

    #[test]
    fn parse_of_what_is_no_value_says_what_is() {
        let parse = |name, text| Knob::find(name).map(|(_, knob)| knob.parse(text));
        assert_eq!(parse("enforce", "on"), Some(Ok(1)));
        assert_eq!(parse("group_by", "user"), Some(Ok(1)));
        assert_eq!(parse("speed", "1"), None);
        let wanted = Err(Error::NotANumber {
            setting: "ratio",
            min: 1,
            max: 1000,
        });
        assert_eq!(parse("ratio", "many"), Some(wanted));
        assert_eq!(parse("ratio", ""), Some(wanted));
        assert!(matches!(
            parse("ratio", "0"),
            Some(Err(Error::OutOfRange { value: 0, .. }))
        ));
        assert!(matches!(
            parse("accounting", "often"),
            Some(Err(Error::UnknownName { names, .. })) if names == ["auto", "burst", "sparse"]
        ));
        assert!(matches!(
            parse("enforce", "yes"),
            Some(Err(Error::UnknownName { .. }))
        ));
    }
}
