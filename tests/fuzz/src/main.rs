// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The fuzzer, on the target that `LOGA_FUZZ` names. Its arguments are those of libFuzzer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

/// The target chosen.
static TARGET: OnceLock<loga_fuzz::Target> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("LOGA_FUZZ").unwrap_or_default();
        let Some(target) = loga_fuzz::target(&name) else {
            let names: Vec<&str> = loga_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
            eprintln!(
                "loga-fuzz: LOGA_FUZZ={name}: want one of {}",
                names.join(", ")
            );
            std::process::exit(2);
        };
        target
    });
    target(data);
});
