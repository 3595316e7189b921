// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The calls of `/dev/loga` for priorities, modes and reserves.

use super::calls::{chosen_gpus, gpu, tracker};
use super::chosen::Chosen;
use super::permission::{require_change, Reader};
use super::refused::Refused;
use super::wire::{miss_numbers, put, spec_numbers};
use crate::engaged::{Reserve, Served, SPECS};
use crate::glue::engaged::ListedSpec;
use crate::glue::kernel::ffi;
use crate::policies::dispatch::DispatcherKind;
use crate::share::CoarseReserve;
use crate::uapi::{self, Refusal};
use kernel::prelude::*;

/// Sets or clears the spec of a subject.
pub(super) fn set(set: &mut uapi::SetSpec) -> Result<(), Refused> {
    require_change().map_err(|_| Refusal::for_change())?;
    let request = set.check()?;
    let tracker = tracker()?;
    let gpus = chosen_gpus(&tracker, request.gpu)?;
    let unknown = Refusal::unknown_subject(set.spec.id);
    let chosen = Chosen::find(request.named, request.spec.is_some()).map_err(|_| unknown)?;
    let mut before = KVec::with_capacity(gpus.clone().count(), GFP_KERNEL).map_err(Error::from)?;
    let mut result = Ok(());
    for gpu in gpus.clone() {
        match gpu.set_spec(chosen.subject, request.spec, request.lease) {
            Ok(old) => before.push(old, GFP_KERNEL).map_err(Error::from)?,
            Err(cause) => {
                result = Err(cause.into());
                break;
            }
        }
    }
    if result.is_ok() && request.spec.is_some() && chosen.is_gone() {
        result = Err(unknown.into());
    }
    // The change applies to all GPUs or none.
    if result.is_err() {
        for (gpu, old) in gpus.zip(before) {
            // A process that has exited gets no spec back.
            gpu.restore_spec(chosen.subject, old.filter(|_| !chosen.is_gone()));
        }
    }
    result
}

/// Lists the specs of a GPU.
pub(super) fn list(list: &mut uapi::ListSpecs) -> Result {
    if !Reader::calling().all {
        return Err(EPERM);
    }
    let tracker = tracker()?;
    let gpu = gpu(&tracker, list.gpu)?;
    let mut rows: KVec<ListedSpec> = KVec::with_capacity(SPECS, GFP_KERNEL)?;
    gpu.list_specs(&mut rows);
    let edf = gpu.engaged.dispatcher() == Some(DispatcherKind::Edf);
    // CAST: 32 bits fit.
    let room = list.count as usize;
    // CAST: at most `SPECS`.
    list.count = rows.len() as u32;
    for (at, listed) in rows.iter().take(room).enumerate() {
        put(list.specs, at, &describe(listed, edf))?;
    }
    Ok(())
}

/// A spec as the caller sees it, with what its reserve has served. `edf`: the earliest deadline is
/// first.
fn describe(listed: &ListedSpec, edf: bool) -> uapi::ListedSpec {
    let (reserve, coarse) = (listed.reserve.as_ref(), listed.coarse.as_ref());
    let served = reserve.map_or(Served::default(), |reserve| *reserve.served());
    let left_of_coarse = coarse.map_or(0, CoarseReserve::left_ns);
    uapi::ListedSpec {
        spec: spec_numbers(&listed.row),
        left_ns: reserve.map_or(left_of_coarse, |reserve| reserve.left(ffi::now())),
        used_ns: coarse.map_or(served.used, CoarseReserve::used).get(),
        served: served.commands,
        longest_seen_ns: served.longest.get(),
        breaches: served.breaches,
        promise: match reserve.map(Reserve::terms) {
            None if coarse.is_some() => uapi::PROMISE_SHARE,
            None => uapi::PROMISE_NONE,
            Some(terms) if terms.is_firm() && edf => uapi::PROMISE_DEADLINE,
            Some(_) => uapi::PROMISE_SHARE,
        },
        misses: miss_numbers(&served.misses),
    }
}
