// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The GPUs on the bus: which LoGA would follow by their PCI ids, which it follows, and what
//! was tried with such cards.

use super::here::{Gpu, Here, DEVICES};
use super::{Finding, State};
use crate::names;
use loga::compatibility::table::{MAX_GPUS, MIN_KERNEL};
use loga::compatibility::{self, Listed};
use loga::uapi;

/// What helps where LoGA cannot follow a card.
const OTHER_CARD: &str =
    "make card OUT=card.tar writes what the project has to know of it; make demo shows LoGA on a model";

pub(super) fn report(here: &Here<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = here.gpus.iter().map(|gpu| one(here, gpu)).collect();
    if found.is_empty() && here.machine.has(DEVICES) {
        found.push(Finding::wrong(
            "GPU",
            "there is no GPU of NVIDIA on the bus",
            "make demo shows LoGA on a model of one",
        ));
    }
    let count = here.gpus.len();
    if count > MAX_GPUS {
        found.push(Finding::wrong(
            "GPU",
            format!("{count} GPUs: LoGA follows {MAX_GPUS} at most, the first on the bus"),
            "echo ADDRESS > /sys/bus/pci/drivers/nvidia/unbind for those that nobody shares",
        ));
    }
    found
}

fn one(here: &Here<'_>, gpu: &Gpu) -> Finding {
    let snapshots = here.answer.as_deref().unwrap_or_default();
    let (name, address) = (gpu.name(), &gpu.address);
    let followed = snapshots
        .iter()
        .find(|one| names::pci(one.info.pci_domain, one.info.pci_bdf) == *address);
    if let Some(one) = followed {
        return if one.info.flags & uapi::GPU_LOST != 0 {
            Finding::wrong(
                "GPU",
                format!("{name}: GPU {} does not answer", one.gpu),
                "dmesg; a reset or a restart",
            )
        } else if one.info.flags & uapi::GPU_AWAY != 0 {
            Finding::note(
                "GPU",
                format!("{name}: GPU {} is not bound to its driver", one.gpu),
                format!("echo {address} > /sys/bus/pci/drivers/nvidia/bind"),
            )
        } else {
            let chip = one.info.chipset;
            Finding::fine("GPU", format!("{name}: GPU {}, chip {chip:#x}", one.gpu))
        };
    }
    if let Err(why) = gpu.followed() {
        let says = format!("{name}: LoGA does not follow this card: {why}");
        // A card that LoGA cannot follow is no fault beside one that it can.
        return match here.follows_nothing() {
            true => Finding::wrong("GPU", says, OTHER_CARD),
            false => Finding::note("GPU", says, OTHER_CARD),
        };
    }
    match gpu.driver.as_deref() {
        None => Finding::note(
            "GPU",
            format!("{name}: LoGA follows such cards; no driver is bound to it"),
            match (&here.driver, here.is_installed("nvidia")) {
                (Some(_), _) => format!("echo {address} > /sys/bus/pci/drivers/nvidia/bind"),
                (None, true) => "sudo modprobe nvidia".to_string(),
                (None, false) => here.driver_advice(),
            },
        ),
        Some(_) if gpu.is_driven() && snapshots.is_empty() => Finding::fine(
            "GPU",
            format!("{name}: LoGA follows such cards; bound to the driver"),
        ),
        Some(_) if gpu.is_driven() => {
            let refusals = here.refusals();
            let reason = refusals
                .iter()
                .find(|line| line.starts_with(address.as_str()));
            Finding::note(
                "GPU",
                match reason {
                    Some(reason) => format!("{name}: not followed; loga says: {reason}"),
                    None => format!("{name}: bound to the driver, but LoGA does not follow it"),
                },
                "dmesg | grep loga; unbind it and bind it again in sysfs for another attempt",
            )
        }
        Some(other) => Finding::note(
            "GPU",
            format!("{name}: belongs to {other}, not to NVIDIA's driver"),
            format!(
                "LoGA follows only GPUs that NVIDIA's driver has: {}",
                here.driver_advice()
            ),
        ),
    }
}

/// What was tried with such cards, such a driver and such a kernel.
pub(super) fn tried(here: &Here<'_>) -> Option<Finding> {
    let families = here.families();
    if families.is_empty() {
        return None;
    }
    let driver = here.driver.as_ref().and_then(|driver| driver.branch);
    let driver = driver.map(|number| {
        let tested = compatibility::branch(number).map(|row| row.tested);
        let tested = tested.unwrap_or(compatibility::Tested::None);
        format!("; driver branch {number}: {tested}")
    });
    let kernel = here.kernel.map(|kernel| match kernel.tried() {
        Some(tried) => format!("; Linux {kernel}: {tried}"),
        None => format!("; Linux {kernel}: not tried"),
    });
    let distribution = here.distribution.map(|one| {
        let tried = if one.tried { "tried" } else { "not tried" };
        format!("; {}: {tried}", one.name)
    });
    let families = Listed(families.iter());
    Some(Finding::fine(
        "tried",
        format!(
            "no real card of {families}, a model of one{}{}{}",
            driver.unwrap_or_default(),
            kernel.unwrap_or_default(),
            distribution.unwrap_or_default()
        ),
    ))
}

/// Whether LoGA works here, from all that was found.
pub(super) fn verdict(here: &Here<'_>, found: &[Finding]) -> Option<Finding> {
    if here.gpus.is_empty() {
        return None;
    }
    if here.follows_nothing() {
        return Some(Finding::wrong(
            "LoGA",
            "it cannot work here: it follows none of the GPUs of this machine",
            OTHER_CARD,
        ));
    }
    let wrong = found.iter().filter(|one| one.state == State::Wrong).count();
    if wrong == 0 {
        return Some(Finding::fine("LoGA", "nothing here keeps it from working"));
    }
    let branches = here.families();
    let branches = compatibility::wanted(&branches).map(|branch| branch.number);
    Some(Finding::note(
        "LoGA",
        format!(
            "it does not work here yet: it needs Linux {MIN_KERNEL} or later with CONFIG_RUST and NVIDIA's driver (branches that are known: {})",
            Listed(branches)
        ),
        "do what the lines marked WRONG say, from the first on",
    ))
}
