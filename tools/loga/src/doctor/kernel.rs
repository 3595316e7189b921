// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The kernel: its release, whether it was built with Rust, and what a module is built with.

use super::here::{Here, NO_USE};
use super::Finding;
use loga::compatibility::table::MIN_KERNEL;

pub(super) fn report(here: &Here<'_>) -> Vec<Finding> {
    let Some(release) = &here.release else {
        return vec![Finding::note(
            "kernel",
            "/proc cannot be read: less can be told",
            "mount -t proc proc /proc",
        )];
    };
    let name = match here.distribution {
        Some(distribution) => format!("{release} ({})", distribution.name),
        None => release.clone(),
    };
    let mut found = vec![one(here, &name)];
    if found[0].state != super::State::Wrong && !here.is_loaded && !here.is_installed("loga") {
        found.extend(metadata(here, release));
    }
    found
}

fn one(here: &Here<'_>, name: &str) -> Finding {
    let Some(kernel) = here.kernel else {
        return Finding::note(
            "kernel",
            format!("{name}: no release of Linux that LoGA can read"),
            format!("LoGA wants Linux {MIN_KERNEL} or later with CONFIG_RUST"),
        );
    };
    if !kernel.is_new_enough() {
        return Finding::wrong(
            "kernel",
            format!("{name}: LoGA wants Linux {MIN_KERNEL} or later with CONFIG_RUST"),
            another(here),
        );
    }
    match (here.rust, kernel.tried()) {
        (Some(false), _) => Finding::wrong(
            "kernel",
            format!("{name}: built without CONFIG_RUST, which LoGA needs"),
            another(here),
        ),
        (_, None) => Finding::note(
            "kernel",
            format!("{name}: LoGA was not tried with Linux {kernel}"),
            useful(
                here,
                "make module builds for it or says what is missing; tell us either way",
            ),
        ),
        (None, Some(_)) if !here.is_loaded => Finding::note(
            "kernel",
            format!("{name}: whether it was built with CONFIG_RUST is not known here"),
            useful(
                here,
                "install its headers, or look: zgrep CONFIG_RUST= /proc/config.gz",
            ),
        ),
        (_, Some(_)) => Finding::fine("kernel", format!("{name}, {}", std::env::consts::ARCH)),
    }
}

/// What helps, if LoGA follows a GPU here.
fn useful(here: &Here<'_>, help: &'static str) -> &'static str {
    match here.follows_nothing() {
        true => NO_USE,
        false => help,
    }
}

/// What gets a kernel that fits.
fn another(here: &Here<'_>) -> String {
    if here.follows_nothing() {
        return NO_USE.to_string();
    }
    match here.distribution {
        Some(distribution) => match distribution.fitting {
            Some(fitting) => fitting.to_string(),
            None => format!(
                "{} is not known to have one: Debian 13 has, in trixie-backports",
                distribution.name
            ),
        },
        None => format!(
            "boot Linux {MIN_KERNEL} or later with CONFIG_RUST; Debian 13 has one in trixie-backports"
        ),
    }
}

fn metadata(here: &Here<'_>, release: &str) -> Option<Finding> {
    if here.follows_nothing() {
        return None;
    }
    Some(if here.has_metadata() {
        Finding::fine(
            "rust",
            format!("the Rust metadata of {release} is installed"),
        )
    } else {
        let help = here.distribution.map(|one| one.metadata);
        let help = help.filter(|help| !help.is_empty());
        Finding::note(
            "rust",
            format!("the Rust metadata of {release} is not installed: loga.ko is built with it"),
            format!(
                "{}, then packaging/module why /lib/modules/{release}/build",
                help.unwrap_or("install the headers of this kernel")
            ),
        )
    })
}
