// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The kernel module: whether it is loaded and attached, why not, and what it answers.

use super::here::{Here, NO_USE};
use super::Finding;
use crate::error::Error;

/// Whether Secure Boot is on: a variable of the firmware.
const SECURE_BOOT: &str =
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// What the kernel forbids even to root.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// Whether the module is attached.
const ATTACH: &str = "/sys/module/loga/parameters/attach";

pub(super) fn report(here: &Here<'_>) -> Vec<Finding> {
    let machine = here.machine;
    if here.is_loaded {
        let mut found = vec![Finding::fine("module", "loga is loaded")];
        found.extend(attached(here));
        return found;
    }
    if !machine.has("/sys/module") {
        return vec![Finding::note(
            "module",
            "/sys cannot be read: it is not known whether loga is loaded",
            "mount -t sysfs sysfs /sys",
        )];
    }
    let mut found = vec![Finding::wrong("module", "loga is not loaded", load(here))];
    let secure = machine.last_byte(SECURE_BOOT) == Some(1);
    let locked = machine
        .text(LOCKDOWN)
        .is_some_and(|text| !text.contains("[none]"));
    if secure || locked {
        found.push(Finding::note(
            "secure boot",
            "it is on: the kernel takes signed modules only",
            "sign loga.ko with a key that mokutil has enrolled, as DKMS does",
        ));
    }
    found
}

/// What loads the module.
fn load(here: &Here<'_>) -> &'static str {
    let fits = here.kernel.is_none_or(|kernel| kernel.is_new_enough()) && here.rust != Some(false);
    if here.follows_nothing() {
        NO_USE
    } else if !fits {
        "first the kernel (above): loga.ko cannot be built for this one"
    } else if here.is_installed("loga") {
        "sudo modprobe loga (in a container: on the host)"
    } else {
        "build and install it for this kernel (make module, make install-module), then sudo modprobe loga"
    }
}

/// Why the module is attached to no driver, or does not follow a GPU, as it says itself.
fn attached(here: &Here<'_>) -> Vec<Finding> {
    let is_attached = here.machine.text(ATTACH).as_deref() != Some("0");
    if is_attached {
        return Vec::new();
    }
    let refusals = here.refusals();
    let help = again(here);
    if refusals.is_empty() {
        return vec![Finding::wrong(
            "module",
            "loga is attached to no driver, and has refused none: it waits for one, or was detached",
            help,
        )];
    }
    let say = |line: &String| {
        let says = format!("loga is attached to no driver; it says: {line}");
        Finding::wrong("module", says, help.clone())
    };
    refusals.iter().map(say).collect()
}

/// What attaches the module.
fn again(here: &Here<'_>) -> String {
    if here.follows_nothing() {
        return NO_USE.to_string();
    }
    let attach = "sudo sh -c 'echo 1 > /sys/module/loga/parameters/attach'";
    if here.driver.is_some() || here.has_major() {
        attach.to_string()
    } else {
        format!("NVIDIA's driver first (above), then {attach}")
    }
}

/// What the module answers.
pub(super) fn answer(here: &Here<'_>) -> Vec<Finding> {
    match here.answer {
        Err(error) => vec![Finding::wrong(
            "/dev/loga",
            error.to_string(),
            help(here, error),
        )],
        Ok(snapshots) => {
            let count = snapshots.len();
            let clients: usize = snapshots.iter().map(|one| one.clients.len()).sum();
            let gpus = if count == 1 { "GPU" } else { "GPUs" };
            let says = format!("answers: {count} {gpus}, {clients} clients that you may see");
            let mut found = vec![Finding::fine("/dev/loga", says)];
            for snapshot in snapshots {
                let config = snapshot.info.config();
                let name = format!("GPU {}: policy {}", snapshot.gpu, config.policy.name());
                found.push(if config.enforce {
                    Finding::fine("policy", format!("{name}, enforced"))
                } else {
                    Finding::note(
                        "policy",
                        format!("{name}, accounting only: shares and limits hold nobody back"),
                        "sudo loga policy set --enforce on",
                    )
                });
                if let Some(caution) = config.caution() {
                    found.push(Finding::note(
                        "knobs",
                        format!("GPU {}: {caution}", snapshot.gpu),
                        "sudo loga policy set --accounting sparse, and no policy that counts runs",
                    ));
                }
            }
            found
        }
    }
}

/// The errors say what helps; the report has a column for it.
fn help(here: &Here<'_>, error: &Error) -> String {
    match error {
        // Nothing is known of a machine without /proc.
        Error::NotLoaded if here.release.is_none() => "sudo modprobe loga".to_string(),
        Error::NotLoaded => load(here).to_string(),
        Error::Detached => again(here),
        Error::Version { .. } => "install the programs and the module of one version".to_string(),
        _ => "see the line itself, and docs/troubleshooting.md".to_string(),
    }
}
