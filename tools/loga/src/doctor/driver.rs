// SPDX-License-Identifier: GPL-2.0

//! `[tool]` NVIDIA's driver: its branch and flavour, whether it takes the GPUs here, other drivers
//! beside it, and what shares a GPU already: MPS, MIG, vGPU.

use super::here::{Driver, Here, DEVICES, NO_USE};
use super::Finding;
use loga::compatibility::{self, row_of, Flavour, Tested};
use loga::regs::Family;

/// Other drivers of the same cards. Source: Linux, drivers/gpu/drm/nouveau, drivers/gpu/nova-core.
const OTHERS: [&str; 2] = ["nouveau", "nova_core"];
/// Modules of NVIDIA's vGPU on a host. Source: NVIDIA, Virtual GPU Software User Guide, "Verifying".
const VGPU: [&str; 2] = ["nvidia_vgpu_vfio", "nvidia_vgpu"];
/// What fits of `nvidia-cuda-mps-server` and `nvidia-cuda-mps-control` into a command.
const MPS: &str = "nvidia-cuda-mps";
/// Where the driver has a folder for each GPU instance. Source: NVIDIA, Multi-Instance GPU User
/// Guide, "Device Nodes and Capabilities".
const CAPABILITIES: &str = "/proc/driver/nvidia/capabilities";

pub(super) fn report(here: &Here<'_>) -> Vec<Finding> {
    let mut found = match &here.driver {
        Some(driver) => loaded(here, driver),
        None => vec![missing(here)],
    };
    found.extend(beside(here));
    found.extend(mps(here));
    found.extend(mig(here));
    found.extend(vgpu(here));
    found
}

fn missing(here: &Here<'_>) -> Finding {
    if here.has_module("loga_model") {
        return Finding::fine("driver", "the model of a GPU and its driver");
    }
    if here.has_major() {
        return Finding::fine("driver", "a module has the driver's devices (major 195)");
    }
    let help = if here.follows_nothing() {
        NO_USE.to_string()
    } else if here.is_installed("nvidia") {
        "sudo modprobe nvidia; LoGA attaches by itself then".to_string()
    } else {
        here.driver_advice()
    };
    Finding::wrong("driver", "NVIDIA's driver is not loaded", help)
}

fn loaded(here: &Here<'_>, driver: &Driver) -> Vec<Finding> {
    let name = match driver.flavour {
        Some(flavour) => format!("NVIDIA {}, {flavour} modules", driver.version),
        None => format!("NVIDIA {}", driver.version),
    };
    let mut found = vec![branch(here, driver, &name)];
    for family in here.families() {
        found.extend(takes(here, driver, family));
    }
    found
}

fn branch(here: &Here<'_>, driver: &Driver, name: &str) -> Finding {
    let row = driver.branch.and_then(compatibility::branch);
    match row.map_or(Tested::None, |row| row.tested) {
        Tested::RealDriver => {
            Finding::fine("driver", format!("{name}: tested, without a GPU behind it"))
        }
        Tested::StandIn => Finding::note(
            "driver",
            format!("{name}: tested with a stand-in for this branch only"),
            match here.follows_nothing() {
                true => NO_USE.to_string(),
                false => format!(
                    "loga stat shows whether programs become clients; better tested: {}",
                    here.driver_advice()
                ),
            },
        ),
        Tested::None => {
            let known = compatibility::known().map(|row| row.number);
            Finding::note(
                "driver",
                format!(
                    "{name}: LoGA was not tested with this branch, only with {}",
                    compatibility::Listed(known)
                ),
                here.driver_advice(),
            )
        }
    }
}

/// Whether the driver takes cards of a family.
fn takes(here: &Here<'_>, driver: &Driver, family: Family) -> Option<Finding> {
    // Every family that LoGA follows is older than Turing, which the open modules begin with.
    if driver.flavour == Some(Flavour::Open) {
        return Some(Finding::wrong(
            "driver",
            format!("its open modules take no {family}: they begin with Turing"),
            format!("the proprietary modules: {}", here.driver_advice()),
        ));
    }
    let (number, last) = (driver.branch?, row_of(family).last?);
    let row = compatibility::branch(number);
    if number > last {
        return Some(Finding::wrong(
            "driver",
            format!("branch {number} takes no {family}: the last that does is {last}"),
            here.driver_advice(),
        ));
    }
    row.filter(|row| !row.takes.contains(&family)).map(|_| {
        Finding::wrong(
            "driver",
            format!("branch {number} takes no {family}: it is older than that family"),
            here.driver_advice(),
        )
    })
}

fn beside(here: &Here<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for other in OTHERS {
        if here.has_module(other) {
            let unload =
                format!("sudo modprobe -r {other}, and `blacklist {other}` in /etc/modprobe.d");
            found.push(Finding::note(
                "driver",
                format!("{other} is loaded: LoGA does not see the GPUs that it has"),
                match here.follows_nothing() {
                    true => NO_USE.to_string(),
                    false => unload,
                },
            ));
        }
    }
    if here.driver.is_some() && here.has_module("loga_model") {
        found.push(Finding::wrong(
            "driver",
            "the model of a driver is loaded beside NVIDIA's: LoGA attaches to one of them",
            "sudo rmmod loga loga_model, then sudo modprobe loga",
        ));
    }
    found
}

fn mps(here: &Here<'_>) -> Option<Finding> {
    let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut processes = here.machine.names("/proc").into_iter().filter(is_number);
    let command = |pid: String| here.machine.text(&format!("/proc/{pid}/comm"));
    processes
        .any(|pid| command(pid).as_deref() == Some(MPS))
        .then(|| {
            Finding::note(
                "MPS",
                "a server of MPS runs: LoGA accounts for its programs as one client, the server",
                "echo quit | nvidia-cuda-mps-control, for a client for each program",
            )
        })
}

fn mig(here: &Here<'_>) -> Option<Finding> {
    let instances = |gpu: String| here.machine.names(&format!("{CAPABILITIES}/{gpu}/mig"));
    let gpus = here.machine.names(CAPABILITIES).into_iter();
    gpus.flat_map(instances)
        .any(|name| name.starts_with("gi"))
        .then(|| {
            Finding::note(
                "MIG",
                "a GPU is divided into instances: LoGA follows no GPU that can be",
                "nothing to do for LoGA; nvidia-smi mig -lgi lists them",
            )
        })
}

fn vgpu(here: &Here<'_>) -> Option<Finding> {
    let of = |file: &str| {
        let mut gpus = here.gpus.iter();
        gpus.any(|gpu| {
            here.machine
                .has(&format!("{DEVICES}/{}/{file}", gpu.address))
        })
    };
    if of("physfn") {
        return Some(Finding::note(
            "vGPU",
            "a GPU here is a virtual function: its registers do not say who runs",
            "load LoGA where the whole GPU is",
        ));
    }
    let is_host = VGPU.iter().any(|name| here.has_module(name)) || of("mdev_supported_types");
    is_host.then(|| {
        Finding::note(
            "vGPU",
            "this host gives parts of a GPU to virtual machines: LoGA was not tried with that",
            "loga stat shows whether a guest's process becomes a client; tell us either way",
        )
    })
}
