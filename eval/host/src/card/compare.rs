// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What each source says of two loads beside each other: what they asked for, their own events,
//! the driver's records of switches, its management library, samples of the status word. Differences
//! are stated, not judged.

use super::counters::{now_us, recorder};
use super::fecs::buffer::Who;
use super::fecs::live::{record_while, Recording};
use super::load::{Load, Running};
use super::nvml::library::Library;
use super::nvml::{Utilisation, LIBRARY};
use super::refusal::Refusal;
use super::registers::bar0::Bar0;
use super::registers::sampler::{sample, HostClock, Sampled, Samples};
use super::registers::survey::survey;
use super::site::Site;
use super::words::status_word;
use loga::units::Ns;
use loga_card::Outcome;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use throttle::report::{Instance, Report};

/// Kernels of the two loads, in us: the pairs of docs/throttle.md.
const PAIRS: [[u64; 2]; 4] = [[1000, 1000], [1000, 4000], [200, 200], [200, 20_000]];
/// How long the loads run: the one that begins first waits for the other's calibration.
const SECONDS: u64 = 9;
/// How long all sources look, from the start of both on.
const WINDOW: Ns = Ns::from_ms(5000);
/// Seed of the instants of the samples.
const SEED: u64 = 1;

/// What the sources said of one pair.
#[derive(Debug, Serialize)]
struct Pair {
    kernels_us: [u64; 2],
    loads: [Share; 2],
    switches: Result<Recording, Refusal>,
    utilisation: Result<Vec<Utilisation>, Refusal>,
    samples: Result<Samples, Refusal>,
}

/// What a load says of itself, in percent of its run.
#[derive(Debug, Serialize)]
struct Share {
    pid: u32,
    asked_percent: f64,
    events_percent: Option<f64>,
}

/// The step.
pub(super) fn compare(site: &Site) -> Outcome {
    all(site).unwrap_or_else(|outcome| outcome)
}

fn all(site: &Site) -> Result<Outcome, Outcome> {
    site.nodes()?;
    let mut pairs = Vec::new();
    for kernels_us in PAIRS {
        pairs.push(pair(site, kernels_us)?);
        site.keep("compare.json", &pairs)?;
        site.keep_text("compare.txt", &table(&pairs))?;
    }
    Ok(Outcome::Done {
        found: format!("{} pairs of loads", pairs.len()),
    })
}

fn pair(site: &Site, kernels_us: [u64; 2]) -> Result<Pair, Outcome> {
    let start = |which: &str, us: u64| {
        let words = format!("--kernel-us {us} --seconds {SECONDS}");
        let name = format!("{which}-{us}");
        Load::new(site, name, &words).with_announcement().start()
    };
    let mut loads = [
        start("first", kernels_us[0])?,
        start("second", kernels_us[1])?,
    ];
    for load in &mut loads {
        load.wait_for_start(site.left())?;
    }
    let since_us = now_us();
    let (switches, samples) = match recorder(site) {
        Ok(recorder) => record_while(recorder, || samples(site)),
        Err(refusal) => (Err(refusal), samples(site)),
    };
    let utilisation = utilisation(site, since_us);
    let [first, second] = loads;
    Ok(Pair {
        kernels_us,
        loads: [share(site, first)?, share(site, second)?],
        switches,
        utilisation,
        samples,
    })
}

/// Samples the status word for the length of the window; sleeps for so long where that is refused.
fn samples(site: &Site) -> Result<Samples, Refusal> {
    let mut clock = HostClock::start();
    let opened = site.address().and_then(|at| Bar0::open(&site.root, &at));
    let found = opened.and_then(|mut registers| {
        let found = survey(&mut registers);
        let word = status_word(&found);
        let none = || Refusal::new("the card", "no status word could be read");
        Ok((registers, word.ok_or_else(none)?))
    });
    match found {
        Ok((mut registers, word)) => Ok(sample(&mut registers, &mut clock, word, WINDOW, SEED)),
        Err(refusal) => {
            std::thread::sleep(std::time::Duration::from_nanos(WINDOW.get()));
            Err(refusal)
        }
    }
}

fn utilisation(site: &Site, since_us: u64) -> Result<Vec<Utilisation>, Refusal> {
    let library = Library::load(Path::new(LIBRARY))?;
    let device = library.device(&site.address()?)?;
    device.utilisation(since_us)
}

/// Waits for the end of a load and takes its own figures.
fn share(site: &Site, load: Running) -> Result<Share, Outcome> {
    let report: Report = load.finish(site.left())?.report()?;
    let one: Option<Instance> = report.instances.into_iter().next();
    let one = one.ok_or_else(|| Outcome::refused("the load's report", "it has no process"))?;
    let length_us = one.end_ns.saturating_sub(one.start_ns) as f64 / 1e3;
    let percent = |us: f64| match length_us > 0.0 {
        true => 100.0 * us / length_us,
        false => 0.0,
    };
    Ok(Share {
        pid: one.pid,
        asked_percent: percent(one.summary.gpu_asked_us),
        events_percent: one.device.map(|device| percent(device.run.measured_us)),
    })
}

impl Pair {
    /// Percent of the recorded time that a process was on the engine, by the records of switches.
    fn switches_percent(&self, pid: u32) -> Option<f64> {
        let summary = &self.switches.as_ref().ok()?.summary;
        let mut processes = summary.processes.iter();
        let process = processes.find(|process| process.who == Who::Pid(pid))?;
        (summary.length_ns > 0)
            .then(|| 100.0 * process.on_engine_ns as f64 / summary.length_ns as f64)
    }

    /// Mean of the management library's samples of a process.
    fn utilisation_percent(&self, pid: u32) -> Option<f64> {
        let samples = self.utilisation.as_ref().ok()?;
        let of_it = samples.iter().filter(|sample| sample.pid == pid);
        let percents: Vec<f64> = of_it.map(|sample| sample.sm_percent.into()).collect();
        (!percents.is_empty()).then(|| percents.iter().sum::<f64>() / percents.len() as f64)
    }

    /// What samples of the status word found, by group: whose a group is they do not tell.
    fn samples_line(&self) -> String {
        let samples = match &self.samples {
            Ok(samples) => samples,
            Err(refusal) => return format!("refused by {refusal}"),
        };
        let length_us = samples.length_us.max(1) as f64;
        let group = |group: &Sampled| {
            let percent = 100.0 * group.ran_us as f64 / length_us;
            let bound = 100.0 * group.bound_us as f64 / length_us;
            format!("group {} {percent:.1} % (+- {bound:.1})", group.id)
        };
        let groups: Vec<_> = samples.groups.iter().map(group).collect();
        groups.join(", ")
    }
}

/// The one table: a line for each load, in percent of the time.
fn table(pairs: &[Pair]) -> String {
    let mut text = "kernels us  beside us   asked  events  switches   nvml\n".to_owned();
    let figure = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    for pair in pairs {
        let [first, second] = pair.kernels_us;
        for (share, (own, other)) in pair.loads.iter().zip([(first, second), (second, first)]) {
            let columns = [
                figure(Some(share.asked_percent)),
                figure(share.events_percent),
                figure(pair.switches_percent(share.pid)),
                figure(pair.utilisation_percent(share.pid)),
            ];
            let [asked, events, switches, nvml] = columns;
            // PANIC: writing to a String cannot fail; the result is dropped for that reason.
            let _ = writeln!(
                text,
                "{own:>10} {other:>10} {asked:>7} {events:>7} {switches:>9} {nvml:>6}"
            );
        }
        // PANIC: as above.
        let _ = writeln!(text, "  samples: {}", pair.samples_line());
    }
    let switches = pairs.iter().find_map(|pair| pair.switches.as_ref().err());
    let nvml = pairs
        .iter()
        .find_map(|pair| pair.utilisation.as_ref().err());
    for (column, refusal) in [("switches", switches), ("nvml", nvml)] {
        if let Some(refusal) = refusal {
            // PANIC: as above.
            let _ = writeln!(text, "{column} refused by {refusal}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::fecs::buffer::{Losses, Version};
    use crate::card::fecs::spread::Lengths;
    use crate::card::fecs::summary::{Adder, Process};

    fn pair(switches: bool) -> Pair {
        let share = |pid, asked_percent| Share {
            pid,
            asked_percent,
            events_percent: Some(asked_percent + 1.0),
        };
        let process = |pid, on_engine_ns| Process {
            who: Who::Pid(pid),
            on_engine_ns,
            pieces: Lengths::default().spread(),
        };
        let mut summary = Adder::default().finish(Version::Two, Losses::default());
        summary.length_ns = 1000;
        summary.processes = vec![process(7, 300), process(8, 600), process(9, 1)];
        let recording = Recording {
            all_users: true,
            capacity: 1,
            drains: 1,
            refused: Vec::new(),
            summary,
        };
        let sample = |pid, sm_percent| Utilisation {
            pid,
            at_us: 1,
            sm_percent,
            memory_percent: 0,
        };
        let group = Sampled {
            id: 3,
            is_channel: false,
            ran_us: 440,
            bound_us: 12,
            found: 9,
        };
        let refusal = Refusal::new("the driver", "status 0x1b");
        Pair {
            kernels_us: [1000, 4000],
            loads: [share(7, 30.5), share(8, 61.6)],
            switches: if switches {
                Ok(recording)
            } else {
                Err(refusal)
            },
            utilisation: Ok(vec![sample(8, 90), sample(7, 10), sample(7, 30)]),
            samples: Ok(Samples {
                length_us: 1000,
                groups: vec![group],
                ..Samples::default()
            }),
        }
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn table_has_what_each_source_says_of_each_load() {
        let table = table(&[pair(true)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            words(lines[1]),
            ["1000", "4000", "30.5", "31.5", "30.0", "20.0"]
        );
        assert_eq!(
            words(lines[2]),
            ["4000", "1000", "61.6", "62.6", "60.0", "90.0"]
        );
        assert_eq!(lines[3], "  samples: group 3 44.0 % (+- 1.2)");
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn source_that_refuses_has_no_figure_and_is_named_once() {
        let mut second = pair(false);
        second.samples = Err(Refusal::new("the kernel", "locked down"));
        let table = table(&[pair(false), second]);
        assert_eq!(words(table.lines().nth(1).expect("a line"))[4], "-");
        assert!(
            table.contains("\n  samples: refused by the kernel: locked down\n"),
            "{table}"
        );
        assert_eq!(
            table
                .matches("switches refused by the driver: status 0x1b\n")
                .count(),
            1
        );
    }
}
