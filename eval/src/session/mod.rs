// SPDX-License-Identifier: GPL-2.0

//! Runs the experiments one after the other and keeps their results: what is already there, made
//! from the same inputs, is not run again.

mod progress;
mod script;

pub use script::Script;

use crate::draw::picture;
use crate::page::page;
use crate::paper::{self, Plan};
use crate::results::reduced::SETTING as MACHINE;
use crate::results::{Experiment, Setting, Unit, FIGURES};
use crate::scenario::{Costs, Micros};
use crate::whole;
use indicatif::MultiProgress;
use progress::{say, Bar};
use sha2::{Digest, Sha256};
use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

/// Name of the report in the folder of the results.
pub const REPORT: &str = "report.html";

/// What is to be run, and where results go.
#[derive(Clone, Debug)]
pub struct Session {
    /// Folder of the results.
    pub folder: PathBuf,
    /// Figures; all if none is named.
    pub figures: Vec<String>,
    /// How the simulator runs them.
    pub plan: Plan,
    /// The program that runs them in the virtual machine, if there is one.
    pub machine: Option<Script>,
    /// Whether to run what is already there, too.
    pub again: bool,
}

impl Session {
    /// Runs everything and writes the report of what there is then. Returns what went wrong on the
    /// way: an experiment that fails does not keep others from being run.
    pub fn run(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Err(error) = self.run_all(&mut wrong) {
            wrong.push(error);
        }
        wrong
    }

    fn run_all(&self, wrong: &mut Vec<String>) -> Result<(), String> {
        let failed = |error| format!("{}: {error}", self.folder.display());
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let own = own_digest()?;
        let bars = MultiProgress::new();
        // The virtual machine takes one processor, the simulator another. The script ends with the
        // thread that starts it: this one.
        let (simulated, real) = thread::scope(|scope| {
            let simulator = scope.spawn(|| self.simulate_all(&own, &bars));
            let real = self.run_machine(&own, &bars);
            let simulated = simulator.join();
            (simulated.unwrap_or_else(|panic| resume_unwind(panic)), real)
        });
        let mut results = Vec::new();
        for one in simulated.into_iter().chain(real) {
            keep(&mut results, wrong, one);
        }
        report(&results, &self.folder.join(REPORT), &self.folder)
    }

    /// Everything in the simulator that needs no result of the virtual machine.
    fn simulate_all(&self, own: &str, bars: &MultiProgress) -> Vec<Result<Experiment, String>> {
        let numbers = self.numbers();
        numbers
            .map(|number| self.simulate(number, &self.plan, own, None, bars))
            .collect()
    }

    /// Everything in the virtual machine, and the same in the simulator.
    fn run_machine(&self, own: &str, bars: &MultiProgress) -> Vec<Result<Experiment, String>> {
        let mut all = Vec::new();
        let mut read = None;
        let Some(machine) = &self.machine else {
            return all;
        };
        let names = match machine.names() {
            Ok(names) => names,
            Err(error) => return vec![Err(error)],
        };
        for name in names {
            let real = match machine.run(&name, &self.folder, |inputs| self.kept(inputs), bars) {
                Ok(real) => real,
                Err(error) => {
                    all.push(Err(format!("virtual machine, {name}: {error}")));
                    continue;
                }
            };
            for one in real.iter().filter(|one| FIGURES.contains(&&*one.figure)) {
                read = one.setting(READ).cloned().or(read);
                let plan = as_machine(one, read.as_ref());
                let run = |plan| self.simulate(&one.figure, &plan, own, Some(one), bars);
                all.push(plan.and_then(run));
            }
            all.extend(real.into_iter().map(Ok));
        }
        all
    }

    /// Numbers of the figures to run in the simulator.
    fn numbers(&self) -> impl Iterator<Item = &'static str> + '_ {
        FIGURES.iter().copied().filter(|number| self.wants(number))
    }

    fn wants(&self, number: &str) -> bool {
        self.figures.is_empty() || self.figures.iter().any(|one| one == number)
    }

    /// Runs a figure in the simulator, if it is not there; `real`: what was run in the virtual
    /// machine, to be run the same way.
    fn simulate(
        &self,
        number: &str,
        plan: &Plan,
        own: &str,
        real: Option<&Experiment>,
        bars: &MultiProgress,
    ) -> Result<Experiment, String> {
        let made = real.map_or("", |real| &real.inputs);
        let plan_text = format!("{plan:?}");
        let parts = [own, number, &plan_text, made];
        let inputs = digest(&parts.map(str::as_bytes));
        let name = format!("Figure {number}, simulator, {}", plan.setting);
        if let Some(kept) = self.kept(&inputs).pop() {
            say(bars, &format!("{name}: kept"));
            return Ok(kept);
        }
        let mut bar = Bar::new(&name, bars);
        let outcome = match real {
            Some(real) => paper::vm::figure(real, plan, &mut bar),
            None => paper::figure(number, plan, &mut bar),
        };
        bar.bar.finish_and_clear();
        let outcome = outcome.ok_or_else(|| format!("there is no Figure {number}"))?;
        let mut one = outcome.map_err(|error| format!("{name}: {error}"))?;
        one.inputs = inputs;
        one.write(&self.folder).map_err(|error| error.to_string())?;
        let (runs, seconds) = (bar.bar.position(), bar.begin.elapsed().as_secs_f64());
        say(bars, &format!("{name}: {runs} runs, {seconds:.1} s"));
        Ok(one)
    }

    /// Results in the folder that were made from these inputs.
    fn kept(&self, inputs: &str) -> Vec<Experiment> {
        if self.again {
            return Vec::new();
        }
        let same = |one: &Experiment| one.inputs == inputs;
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let json = files
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"));
        // What cannot be read is no result of ours; it is written anew or left alone.
        json.filter_map(|path| Experiment::read(&path).ok())
            .filter(same)
            .collect()
    }
}

/// Files read from the command line or just made, as pictures and one page.
///
/// # Errors
///
/// There are no results, they cannot be drawn, or not be written.
pub fn report(results: &[Experiment], page_path: &Path, pictures: &Path) -> Result<(), String> {
    if results.is_empty() {
        return Err("there is no result to report".to_owned());
    }
    let write = |path: &Path, text: &str| {
        let written = whole::replace(path, text.as_bytes());
        written.map_err(|error| format!("{}: {error}", path.display()))
    };
    for one in results {
        let file = one.file();
        let svg = picture(one).map_err(|error| format!("{file}: {error}"))?;
        write(&pictures.join(file).with_extension("svg"), &svg)?;
    }
    let text = page(results).map_err(|error| error.to_string())?;
    write(page_path, &text)
}

/// Keeps a result, or what went wrong.
fn keep(results: &mut Vec<Experiment>, wrong: &mut Vec<String>, one: Result<Experiment, String>) {
    match one {
        Ok(one) => results.push(one),
        Err(error) => wrong.push(error),
    }
}

/// The simulator's plan for what was run in the virtual machine: with the costs that were measured
/// there, and with that of a poll as measured in an earlier experiment, if not in this.
fn as_machine(real: &Experiment, earlier: Option<&Setting>) -> Result<Plan, String> {
    let mut settings = real.settings.clone();
    let read = real.setting(READ).or(earlier);
    if real.setting(READ).is_none() {
        settings.extend(read.cloned());
    }
    settings.extend(read.and_then(Setting::micros).map(|us| {
        let origin = "three times a read: the scan of a channel";
        Setting::number("costs.scan_us", us * READS, Unit::Micros, origin)
    }));
    let mut costs = Costs::default();
    for setting in &settings {
        let cost = setting.name.strip_prefix("costs.").zip(setting.micros());
        let Some((name, us)) = cost else {
            continue;
        };
        let cost = costs.by_name(name);
        *cost.ok_or_else(|| format!("the simulator has no {}", setting.name))? = Micros::new(us);
    }
    Ok(Plan {
        setting: MACHINE.to_owned(),
        costs,
        settings,
        ..Plan::paper()
    })
}

/// Cost of a poll, in the settings, and the number of reads in the scan of a channel.
const READ: &str = "costs.read_us";
const READS: f64 = 3.0;

/// SHA-256 of these parts, in hexadecimal digits.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(Sha256::digest(part));
    }
    format!("{:x}", hash.finalize())
}

/// What simulates: this program, with everything in it.
fn own_digest() -> Result<String, String> {
    // Not by its path: another build may have taken its place there.
    let bytes = fs::read("/proc/self/exe")
        .map_err(|error| format!("this program cannot read itself: {error}"))?;
    Ok(digest(&[&bytes]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_costs_change_the_scenarios_and_nothing_else_does() {
        let mut real = Plan::quick().empty("10");
        let number = |name: &str, value, unit| Setting::number(name, value, unit, "measured");
        real.settings = vec![
            number("costs.switch_us", 8.1, Unit::Micros),
            number("policy.poll_ms", 9.0, Unit::Millis),
            Setting::text("costs.fault_us", "few us", "measured"),
        ];
        let read = number(READ, 1.5, Unit::Micros);
        let costs = as_machine(&real, Some(&read)).unwrap().costs;
        let assumed = Costs::default();
        let ours = [costs.switch, costs.read, costs.scan, costs.fault];
        assert_eq!(ours, [8.1, 1.5, 4.5, 2.0].map(Micros::new));
        assert_eq!(
            (costs.revoke, costs.wakeup),
            (assumed.revoke, assumed.wakeup)
        );
        real.settings = vec![number("costs.tea_us", 8.1, Unit::Micros)];
        assert!(as_machine(&real, None).unwrap_err().contains("tea"));
    }

    #[test]
    fn digest_differs_for_the_same_bytes_in_other_parts() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_eq!(digest(&[b"ab"]).len(), 64);
    }
}
