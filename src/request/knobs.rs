// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Knobs that a caller sets.

use super::gpu;
use crate::error::Error;
use crate::knobs::{self, Config, Knob, KNOBS};
use crate::uapi::{Configure, Gpu, Refusal, MAX_KNOBS};

const _: () = assert!(KNOBS.len() <= MAX_KNOBS);

/// A [`Configure`] that has been checked. Knobs that are absent do not change.
#[derive(Clone, Copy, Debug)]
pub struct KnobChange {
    /// Index of the GPU; nothing for all.
    pub gpu: Option<u32>,
    mask: u32,
    values: [u32; MAX_KNOBS],
}

impl KnobChange {
    /// Sets what is given.
    pub fn apply(&self, config: &mut Config) {
        for (knob, value) in masked(self.mask, &self.values) {
            // Checked before.
            let _ = knob.set(config, value);
        }
    }
}

/// The knobs whose bits are set, with their numbers.
fn masked(mask: u32, values: &[u32; MAX_KNOBS]) -> impl Iterator<Item = (&'static Knob, u32)> + '_ {
    let all = KNOBS.iter().zip(values.iter().copied()).enumerate();
    all.filter(move |(at, _)| mask & bit(*at) != 0)
        .map(|(_, masked)| masked)
}

/// The bit of the knob at this position.
const fn bit(at: usize) -> u32 {
    1u32.wrapping_shl(at as u32)
}

impl Configure {
    /// Sets the knob with this name to a value that a user has written.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownName`] without such a knob, [`Error::AtLoad`] for one that cannot be set
    /// while LoGA runs, else as [`Knob::parse`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let (at, knob) = Knob::find(name).ok_or(Error::UnknownName {
            setting: "knob",
            names: knobs::NAMES,
        })?;
        if !knob.live {
            return Err(Error::AtLoad { setting: knob.name });
        }
        let number = knob.parse(value)?;
        if let Some(value) = self.values.get_mut(at) {
            *value = number;
        }
        self.mask |= bit(at);
        Ok(())
    }

    /// Checks everything.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that names what would be right.
    pub fn check(&self) -> Result<KnobChange, Refusal> {
        let fixed = |at: &usize| KNOBS.get(*at).is_none_or(|knob| !knob.live);
        let unknown = (0..32).filter(fixed).any(|at| self.mask & bit(at) != 0);
        if unknown || self.refusal != Refusal::default() {
            return Err(Refusal::reserved());
        }
        if self.mask == 0 {
            return Err(Error::NothingToSet.into());
        }
        for (knob, value) in masked(self.mask, &self.values) {
            knob.check(value)?;
        }
        Ok(KnobChange {
            gpu: gpu(self.gpu),
            mask: self.mask,
            values: self.values,
        })
    }
}

impl Gpu {
    /// The settings of the GPU.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        for (knob, value) in KNOBS.iter().zip(self.knobs) {
            // A newer module may know more words.
            let _ = knob.set(&mut config, value);
        }
        config
    }

    /// Notes the settings of the GPU.
    pub fn note(&mut self, config: &Config) {
        for (knob, value) in KNOBS.iter().zip(&mut self.knobs) {
            *value = (knob.get)(config);
        }
    }
}
