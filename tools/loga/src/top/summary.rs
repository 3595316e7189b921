// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The lines about GPUs: whole words at any width.

use super::figures::Figures;
use crate::table;

/// A part of the line about a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Gpu,
    Pci,
    Policy,
    Mode,
    Busy,
    Copy,
    Idle,
    Clients,
    Throttled,
}

/// All of them, from the left.
const ALL: [Part; 9] = [
    Part::Gpu,
    Part::Pci,
    Part::Policy,
    Part::Mode,
    Part::Busy,
    Part::Copy,
    Part::Idle,
    Part::Clients,
    Part::Throttled,
];

/// Those that a narrow screen does without, the first one first.
const DISPENSABLE: [Part; 7] = [
    Part::Idle,
    Part::Pci,
    Part::Clients,
    Part::Policy,
    Part::Throttled,
    Part::Mode,
    Part::Copy,
];

/// A line for each GPU, all with the same parts, in so many columns if that is possible.
pub(super) fn lines(gpus: &[Figures], copies: bool, width: usize) -> Vec<String> {
    let mut parts = ALL.to_vec();
    parts.retain(|part| copies || *part != Part::Copy);
    let mut dispensable = DISPENSABLE.iter();
    loop {
        let lines: Vec<String> = gpus.iter().map(|gpu| line(gpu, &parts)).collect();
        if lines.iter().all(|line| line.len() <= width) {
            return lines;
        }
        let Some(next) = dispensable.next() else {
            return gpus.iter().map(|gpu| least(gpu, width)).collect();
        };
        parts.retain(|part| part != next);
    }
}

fn line(gpu: &Figures, parts: &[Part]) -> String {
    // A GPU that is lost says so on any screen.
    let shown = |part: &&Part| gpu.stat.lost && **part == Part::Mode || parts.contains(*part);
    let words: Vec<String> = ALL
        .iter()
        .filter(shown)
        .map(|one| part(gpu, *one))
        .collect();
    words.join(" ")
}

/// The least that there is to say.
fn least(gpu: &Figures, width: usize) -> String {
    let share = match (gpu.stat.lost, gpu.stat.away) {
        (true, _) => "LOST".to_string(),
        (false, true) => "AWAY".to_string(),
        (false, false) => table::percent(gpu.stat.busy),
    };
    let named = format!("{}: {share}", gpu.gpu());
    if named.len() <= width {
        named
    } else {
        share
    }
}

fn part(gpu: &Figures, part: Part) -> String {
    let stat = &gpu.stat;
    let percent = |share| format!("{:>7}", table::percent(share));
    match part {
        Part::Gpu => format!("GPU {}", stat.gpu),
        Part::Pci => stat.pci.clone(),
        Part::Policy => stat.policy.clone(),
        Part::Mode => mode(gpu).to_string(),
        Part::Busy => format!("busy {}", percent(stat.busy)),
        Part::Copy => format!("copy {}", percent(stat.copy_busy)),
        Part::Idle => format!("idle {}", percent(stat.idle)),
        Part::Clients => format!("clients {}", stat.clients.len()),
        Part::Throttled => {
            let throttled = |client: &&crate::stat::Client| client.state == "throttled";
            let count = stat.clients.iter().filter(throttled).count();
            format!("throttled {count}")
        }
    }
}

fn mode(gpu: &Figures) -> &'static str {
    match (gpu.stat.lost, gpu.stat.away, gpu.stat.enforcing) {
        (true, _, _) => "LOST",
        (false, true, _) => "AWAY",
        (false, false, true) => "enforcing",
        (false, false, false) => "accounting",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::tests::snapshot;
    use loga::knobs::Config;
    use loga::policies::PolicyKind;
    use loga::uapi;

    fn gpu(lost: bool) -> Figures {
        let mut one = snapshot(1);
        let config = one.info.config();
        one.info.note(&Config {
            policy: PolicyKind::TimesliceEngaged,
            ..config
        });
        if lost {
            one.info.flags |= uapi::GPU_LOST;
        }
        Figures::new(one)
    }

    #[test]
    fn lines_of_all_widths_have_whole_parts() {
        let gpus = [gpu(false)];
        let whole = &lines(&gpus, false, 500)[0];
        let wanted = "GPU 0 0001:01:00.0 timeslice-eng enforcing busy  75.0 % idle  25.0 % clients 2 throttled 0";
        assert_eq!(whole, wanted);
        for width in 0..120 {
            let shown = &lines(&gpus, false, width)[0];
            assert!(shown.len() <= width.max("75.0 %".len()), "{shown}");
            // What is shown are parts of the whole, as they stand there.
            if width >= "GPU 0 busy  75.0 %".len() {
                assert!(shown.contains("busy  75.0 %"), "{shown}");
                let mut words = whole.split(' ');
                assert!(
                    shown
                        .split(' ')
                        .all(|word| words.any(|other| other == word)),
                    "{shown}"
                );
            } else {
                assert!(shown.ends_with("75.0 %"), "{shown}");
            }
        }
    }

    #[test]
    fn gpu_that_is_lost_says_so_on_any_screen() {
        for width in 4..120 {
            let shown = &lines(&[gpu(true)], false, width)[0];
            assert!(shown.contains("LOST"), "{shown}");
        }
    }
}
