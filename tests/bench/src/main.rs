// SPDX-License-Identifier: GPL-2.0

//! [tool] Measures LoGA inside the virtual machine: real processes, the real module, and
//! the model's exact log as the truth. Meant for instruction-count mode, in which time
//! depends on nothing outside the machine.
//!
//! Every figure is printed with the target it is held against; the result goes to
//! `bench.json`. A missed target is printed as missed and ends with exit code 1.

mod figure;
mod load;
mod machine;
mod scenarios;

use figure::Figures;
use std::process::ExitCode;

/// Where the result goes, inside the machine.
const RESULT: &str = "/out/bench.json";

type Scenario = fn(&mut Figures) -> Result<(), String>;

/// All scenarios, by name.
const SCENARIOS: &[(&str, Scenario)] = &[
    ("kernel-length", scenarios::kernel_length),
    ("load", scenarios::load),
    ("duty", scenarios::duty),
    ("enforce", scenarios::enforce),
    ("overhead", scenarios::overhead),
    ("costs", scenarios::costs),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted
        .iter()
        .find(|name| !SCENARIOS.iter().any(|(known, _)| known == name))
    {
        let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "loga-bench: no scenario {unknown}; there are: {}",
            names.join(" ")
        );
        return ExitCode::from(2);
    }
    let mut figures = Figures::default();
    for (name, scenario) in SCENARIOS {
        if !wanted.is_empty() && !wanted.iter().any(|one| one == name) {
            continue;
        }
        println!("# {name}");
        if let Err(error) = scenario(&mut figures) {
            println!("{name}: {error}");
            figures.fail(name, &error);
        }
        machine::unload();
    }
    if let Err(error) = std::fs::write(RESULT, figures.json()) {
        eprintln!("loga-bench: {RESULT}: {error}");
        return ExitCode::FAILURE;
    }
    println!("{} figures, {} missed", figures.len(), figures.missed());
    if figures.missed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
