// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What was set before is set again, where not everything could be applied.

use super::found::{called, Found};
use crate::commands::subject::Subject;
use crate::control::{Calls, Control};
use loga::knobs::KNOBS;
use loga::uapi;

/// What a GPU had before.
pub(super) struct Before {
    pub(super) gpu: u32,
    pub(super) info: uapi::Gpu,
    pub(super) shares: Vec<uapi::Share>,
}

/// Sets what was set before. Returns what cannot be set again.
pub(super) fn restore(
    before: &[Before],
    subjects: &[Found<'_>],
    control: &Control<impl Calls>,
) -> Vec<String> {
    let mut lost = Vec::new();
    for one in before {
        let mut argument = uapi::Configure {
            gpu: one.gpu,
            ..Default::default()
        };
        let config = one.info.config();
        for knob in KNOBS.iter().filter(|knob| knob.live) {
            let value = knob.written((knob.get)(&config)).to_string();
            // A value of this GPU is a value of the knob.
            let _ = argument.set(knob.name, &value);
        }
        if control.configure(&argument).is_err() {
            lost.push(format!("knobs of GPU {}", one.gpu));
        }
        lost.extend(restore_shares(one, subjects, control));
    }
    lost
}

/// The same of the shares of one GPU. One that is refused because of what else is set comes again
/// after the others.
fn restore_shares(
    before: &Before,
    subjects: &[Found<'_>],
    control: &Control<impl Calls>,
) -> Vec<String> {
    const SET: u32 = uapi::SHARE_WEIGHT
        | uapi::SHARE_LIMIT
        | uapi::SHARE_CLASS
        | uapi::SHARE_TARGET
        | uapi::SHARE_ACCESS;
    let clear = |subject: &Subject| uapi::SetShare {
        gpu: before.gpu,
        action: uapi::ACTION_CLEAR,
        subject: subject.kind,
        id: subject.id,
        ..Default::default()
    };
    for (_, subject) in subjects {
        // Nothing may be set for it yet.
        let _ = control.set_share(&clear(subject));
    }
    let old = |subject: &Subject| {
        let same = |share: &&uapi::Share| (share.subject, share.id) == (subject.kind, subject.id);
        let old = before.shares.iter().find(same)?;
        Some(uapi::SetShare {
            action: uapi::ACTION_SET,
            mask: old.mask & SET,
            weight: old.weight,
            limit_pct: old.limit_pct,
            class: old.class,
            target_pct: old.target_pct,
            access: old.access,
            ..clear(subject)
        })
    };
    let mut left: Vec<(&Found<'_>, uapi::SetShare)> = subjects
        .iter()
        .filter_map(|found| Some((found, old(&found.1)?)))
        .collect();
    loop {
        let count = left.len();
        left.retain(|(_, set)| control.set_share(set).is_err());
        if left.is_empty() || left.len() == count {
            break;
        }
    }
    let lost = left.iter();
    lost.map(|((entry, subject), _)| format!("{} on GPU {}", called(entry, subject), before.gpu))
        .collect()
}
