// SPDX-License-Identifier: GPL-2.0

//! Tests of the file: the simulator, which has nothing else, makes the same choice.

use super::*;
use crate::history::ask::Running;
use crate::history::record::{Mean, Record};
use crate::placing::Pool;
use loga::placement::{self, PPM};
use loga::random::XorShift;
use loga::units::Weight;
use loga_eval::recorded;
use std::fs;

/// Random pools for each policy.
const POOLS: u64 = 1500;
/// Costs are alike up to what rounding each program's want to a millionth, and a run to a
/// nanosecond, makes of them.
const ALIKE: f64 = 1e-4;

/// Cost and slowdown of a GPU that may be chosen.
type Price = Option<(u64, u64)>;

/// All that a choice is made from.
struct Case {
    snapshots: Vec<Snapshot>,
    asked: cli::Asked,
    visible: Option<Vec<u32>>,
    memory: Memory,
    wish: Wish,
}

fn below(random: &mut XorShift, end: u64) -> u64 {
    let bits = (0..3).fold(0, |bits, _| bits << 16 | u64::from(random.bits16()));
    bits % end
}

fn number(random: &mut XorShift, end: u64) -> u32 {
    u32::try_from(below(random, end)).expect("small")
}

fn client(random: &mut XorShift, id: u64) -> uapi::Client {
    let busy = number(random, PPM + 1);
    let light = below(random, 4) == 0;
    let runs = below(random, 50);
    uapi::Client {
        id,
        pid: 1,
        weight: 1 + number(random, 400),
        class: [uapi::CLASS_NORMAL, uapi::CLASS_IDLE][usize::from(below(random, 8) == 0)],
        busy_30s_ppm: if light { busy / 60 } else { busy },
        waited_30s_ppm: match below(random, 3) {
            0 => 0,
            _ => number(random, PPM + 1 - u64::from(busy)),
        },
        copy_30s_ppm: number(random, 2) * number(random, PPM / 2),
        measured_ns: runs * (1 + below(random, 3_000_000)),
        runs,
        since_ns: below(random, 50_000_000_000),
        waited_ns: below(random, 10_000_000_000),
        ..Default::default()
    }
}

fn snapshot(random: &mut XorShift, gpu: u32, claims_seen: u64) -> Snapshot {
    let clients: Vec<_> = (0..below(random, 5)).map(|id| client(random, id)).collect();
    let (mut wanted, mut copied, mut wanting) = (0u64, 0u64, 0u32);
    let hidden: Vec<_> = (0..below(random, 3)).map(|id| client(random, id)).collect();
    for one in clients.iter().chain(&hidden) {
        let want = u64::from(one.means().want_30s());
        wanted += want;
        copied += u64::from(one.copy_30s_ppm);
        wanting += u32::from(want >= PPM / 100);
    }
    let claims = number(random, 3);
    let percent = |sum: u64| u32::try_from(sum / (PPM / 100)).expect("small");
    Snapshot {
        gpu,
        info: uapi::Gpu {
            chipset: 0xf0 + number(random, 3),
            pci_bdf: (gpu + 1) << 8,
            flags: if below(random, 12) == 0 {
                uapi::GPU_LOST
            } else {
                0
            },
            now_ns: 60_000_000_000,
            want_30s_pct: percent(wanted),
            copy_30s_pct: percent(copied),
            wanting,
            claims,
            claimed_pct: claims * (1 + number(random, 120)),
            claims_seen,
            ..Default::default()
        },
        clients,
        ..Default::default()
    }
}

/// A mean that counts, or one that does not.
fn mean(random: &mut XorShift, end: u64) -> Mean {
    let mean = 1 + below(random, end);
    Mean {
        runs: 1 + number(random, 9),
        mean,
        deviation: below(random, mean),
    }
}

fn answer(random: &mut XorShift, snapshots: &[Snapshot]) -> Answer {
    let model = |random: &mut XorShift, chip| OnModel {
        chip,
        time: mean(random, 20_000_000_000),
        gpu: mean(random, 10_000_000_000),
        want: mean(random, PPM),
        copy: if below(random, 2) == 0 {
            Mean::default()
        } else {
            mean(random, PPM)
        },
        command: if below(random, 2) == 0 {
            Mean::default()
        } else {
            mean(random, 5_000_000)
        },
        ..OnModel::default()
    };
    let models: Vec<_> = (0xefu32..0xf3).filter(|_| below(random, 2) == 0).collect();
    let models = models.into_iter().map(|chip| model(random, chip)).collect();
    let clients = snapshots.iter().flat_map(|snapshot| {
        let gpu = snapshot.gpu;
        snapshot.clients.iter().map(move |client| (gpu, client.id))
    });
    let running: Vec<_> = clients.filter(|_| below(random, 2) == 0).collect();
    Answer {
        record: (below(random, 4) > 0).then_some(Record { seen_s: 0, models }),
        typical_ns: (below(random, 2) == 0).then(|| 1 + below(random, 20_000_000_000)),
        running: running
            .into_iter()
            .map(|(gpu, client)| Running {
                gpu,
                client,
                time_ns: 1 + below(random, 60_000_000_000),
            })
            .collect(),
        ..Answer::default()
    }
}

/// Free memory of some of the GPUs.
fn memory(random: &mut XorShift, gpus: u32) -> Memory {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut capacity, mut current) = (String::new(), String::new());
    for gpu in 0..gpus {
        if below(random, 2) == 0 {
            continue;
        }
        let region = format!("nvidia/{}/vidmem", names::pci(0, (gpu + 1) << 8));
        capacity += &format!("{region} {}\n", 8u64 << 30);
        current += &format!("{region} {}\n", below(random, 8 << 30));
    }
    fs::write(folder.path().join("dmem.capacity"), capacity).expect("a file");
    fs::write(folder.path().join("dmem.current"), current).expect("a file");
    Memory::of(folder.path())
}

fn case(policy: &str, seed: u64) -> Case {
    let mut random = XorShift::new(seed);
    let random = &mut random;
    let gpus = 1 + number(random, 6);
    let claims = below(random, 100);
    let snapshots: Vec<_> = (0..gpus).map(|gpu| snapshot(random, gpu, claims)).collect();
    let mut some = |list: Vec<u32>| -> Vec<u32> {
        list.into_iter().filter(|_| below(random, 4) > 0).collect()
    };
    let (among, visible) = (some((0..gpus).collect()), some((0..gpus).collect()));
    let rare = |random: &mut XorShift| below(random, 4) == 0;
    let asked = cli::Asked {
        named: Vec::new(),
        among: if rare(random) { among } else { Vec::new() },
        speeds: match below(random, 2) {
            0 => Vec::new(),
            _ => (0..gpus)
                .map(|_| [0.25, 0.47, 1.0, 3.1][below(random, 4) as usize])
                .collect(),
        },
        want: (below(random, 2) == 0).then(|| 1 + number(random, 100)),
        command_us: rare(random).then(|| 1 + below(random, 9_000)),
        memory: rare(random).then(|| 1 + below(random, 8_192)),
    };
    let weight = Weight::new(1 + number(random, 300)).expect("a weight");
    let count = 1 + number(random, 2);
    let mut wish = Wish::new(Some(policy), count, &asked, weight).expect("a wish");
    if below(random, 2) == 0 {
        wish.heard = Heard::Answer(Box::new(answer(random, &snapshots)));
    }
    Case {
        memory: memory(random, gpus),
        visible: rare(random).then_some(visible),
        snapshots,
        asked,
        wish,
    }
}

impl Case {
    /// What `loga place` chooses, and each GPU's cost and slowdown in millionths.
    fn chosen(&self) -> (Vec<u32>, &'static str, Vec<Price>) {
        let pool = Pool::new(&self.snapshots, &self.asked, self.visible.as_deref());
        let mut pool = pool.expect("a pool");
        pool.note_memory(&self.memory, self.asked.memory);
        let given = !self.asked.speeds.is_empty();
        let wish = pool.learn(&self.snapshots, &self.wish, given);
        let chosen = pool.choose(&wish).unwrap_or_default();
        (chosen, wish.decided_by().name(), pool.costs(&wish))
    }

    fn text(&self) -> String {
        let given = CallerInput {
            asked: &self.asked,
            visible: self.visible.as_deref(),
            memory: &self.memory,
        };
        text(&self.snapshots, &self.wish, given).expect("a file")
    }
}

fn alike(one: f64, other: f64) -> bool {
    (one - other).abs() <= ALIKE * one.abs().max(1.0)
}

#[test]
fn simulator_chooses_the_same_from_the_file() {
    for policy in placement::NAMES {
        for seed in 1..=POOLS {
            let case = case(policy, seed);
            let (chosen, decides, costs) = case.chosen();
            let file = case.text();
            let read = recorded::parse("file", &file).expect("a file that makes sense");
            let again = read.choose(None);
            let what = || format!("{policy}, seed {seed}:\n{file}\n{costs:?}\n{again:#?}");
            assert_eq!(again.decided_by, decides, "{}", what());
            assert_eq!(again.chosen, chosen, "{}", what());
            for (row, cost) in again.gpus.iter().zip(&costs) {
                let both = row.cost.zip(row.slowdown);
                assert_eq!(both.is_some(), cost.is_some(), "{}", what());
                let Some(((cost, slowdown), wanted)) = both.zip(*cost) else {
                    continue;
                };
                let scale = match placement::by_name(decides).map(placement::Placement::unit) {
                    Ok(placement::Unit::Millionths) => PPM as f64,
                    _ => 1.0,
                };
                assert!(alike(cost, wanted.0 as f64 / scale), "{}", what());
                assert!(alike(slowdown, wanted.1 as f64 / PPM as f64), "{}", what());
            }
        }
    }
}
