// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Priorities, modes and reserves that a caller sets.

use super::gpu;
use super::share::{named, Named};
use crate::engaged::{Kind, Mode, Prio, SchedulingParameters, Terms};
use crate::error::in_range;
use crate::uapi::{
    self, Refusal, SetSpec, ACTION_CLEAR, ACTION_SET, MAX_LEASE_MS, MODE_HT, MODE_PROTECTED,
    MODE_PRT, PRIO_BY_NICE, REFUSED_PROTECTED_RESERVE, RESERVE_AE, RESERVE_CBS, RESERVE_NONE,
    RESERVE_PE, SPEC_SOFT,
};
use crate::units::Ns;

/// A [`SetSpec`] that has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecRequest {
    /// Index of the GPU; nothing for all.
    pub gpu: Option<u32>,
    /// The subject.
    pub named: Named,
    /// What to set; nothing to clear.
    pub spec: Option<SchedulingParameters>,
    /// For how long, if not until it is cleared.
    pub lease: Option<Ns>,
}

impl SetSpec {
    /// Checks everything that can be checked without knowing which subjects exist, and what is
    /// promised to others.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that names what would be right.
    pub fn check(&self) -> Result<SpecRequest, Refusal> {
        let unknown = self.spec.flags & !SPEC_SOFT | self.spec.reserved;
        if unknown != 0 || self.refusal != Refusal::default() {
            return Err(Refusal::reserved());
        }
        in_range("action", self.action.into(), 0, ACTION_CLEAR.into())?;
        let lease_ms = self.spec.lease_ms;
        in_range("lease_ms", lease_ms.into(), 0, MAX_LEASE_MS.into())?;
        Ok(SpecRequest {
            gpu: gpu(self.gpu),
            named: named(self.spec.subject, self.spec.id)?,
            spec: match self.action {
                ACTION_SET => Some(self.spec.read()?),
                _ => None,
            },
            lease: (lease_ms != 0).then_some(Ns::from_ms(lease_ms.into())),
        })
    }
}

impl uapi::Spec {
    fn read(&self) -> Result<SchedulingParameters, Refusal> {
        in_range(
            "mode",
            self.mode.into(),
            MODE_PRT.into(),
            MODE_PROTECTED.into(),
        )?;
        if self.mode == MODE_PROTECTED && self.kind != RESERVE_NONE {
            return Err(Refusal::of(REFUSED_PROTECTED_RESERVE));
        }
        Ok(SchedulingParameters {
            prio: match self.prio {
                PRIO_BY_NICE => None,
                prio => Some(Prio::new(prio)?),
            },
            mode: match self.mode {
                MODE_HT => Mode::Ht,
                MODE_PROTECTED => Mode::Protected,
                _ => Mode::Prt,
            },
            reserve: self.reserve()?,
        })
    }

    fn reserve(&self) -> Result<Option<Terms>, Refusal> {
        let kind = match self.kind {
            RESERVE_NONE => {
                let lengths =
                    self.capacity_ns | self.period_ns | self.longest_ns | self.deadline_ns;
                if lengths != 0 || self.commands | self.flags != 0 {
                    return Err(Refusal::reserved());
                }
                return Ok(None);
            }
            RESERVE_PE => Kind::Pe,
            RESERVE_AE => Kind::Ae,
            kind => {
                let (least, most) = (RESERVE_NONE.into(), RESERVE_CBS.into());
                in_range("reserve", kind.into(), least, most)?;
                Kind::Cbs
            }
        };
        let terms = Terms {
            hard: self.flags & SPEC_SOFT == 0,
            longest: (self.longest_ns != 0).then_some(Ns::new(self.longest_ns)),
            ..Terms::new(kind, Ns::new(self.capacity_ns), Ns::new(self.period_ns))?
        };
        let terms = terms.declared(self.commands.into())?;
        Ok(Some(match self.deadline_ns {
            0 => terms,
            deadline => terms.due(Ns::new(deadline))?,
        }))
    }
}
