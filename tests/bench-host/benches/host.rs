// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The benchmarks on the host: `make bench-host`.
//!
//! Times are the host's but for the reads of registers, which cost nothing here and are added at
//! [`READ`] each where a name ends in `modelled`.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use loga::account::{Accountant, Slot, MAX_SLOTS};
use loga::engine::{Config, Engine};
use loga::ids::{Chid, Chipset};
use loga::policies::{Inputs, PolicyKind};
use loga::regs::{Chip, Family, Occupant, OccupantReader, Source, USERD_SLOT};
use loga::share::{GroupBy, MAX_CLIENTS_OF_USER};
use loga::uapi;
use loga::units::Ns;
use loga_bench_host::changes::{self, Changing};
use loga_bench_host::clients::{at_decision, COUNTS};
use loga_bench_host::registers::{modelled, FakeRegisters, CHANNELS, READ};
use loga_bench_host::{figures, prototype};
use loga_cli::control::Snapshot;
use loga_cli::processes::Processes;
use loga_cli::stat::Stat;
use loga_cli::table;
use loga_eval::ideal::{IdealGpu, Process};
use loga_eval::scenario::parse;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// Polls between two changes of the running channel: at a microsecond each, kernels of 100 us.
const POLLS_PER_CHANGE: u64 = 100;

/// The scenario of `make demo`.
const DEMO: &str = include_str!("../../../eval/scenarios/demo.toml");

const CHIP: Chip = Chip {
    chipset: Chipset::new(0xf1),
    family: Family::Kepler,
    channels: CHANNELS,
    userd_slot: Some(USERD_SLOT),
    copy_engine: None,
};

/// The running channels, in a cycle.
#[derive(Clone, Copy)]
enum Running {
    /// All in turn.
    Each,
    /// The last of the table.
    Last,
}

/// Polls a number of times and notes changes; the time includes that of the reads.
fn poll(
    rounds: u64,
    running: Running,
    mut read: impl FnMut(&FakeRegisters) -> Occupant,
) -> Duration {
    let registers = FakeRegisters::default();
    let mut accountant = Accountant::new();
    let mut slots = vec![Slot::default(); MAX_SLOTS];
    accountant.begin(&mut slots, Ns::ZERO, Occupant::Idle);
    let mut last = Occupant::Idle;
    let start = Instant::now();
    for round in 0..rounds {
        if round % POLLS_PER_CHANGE == 0 {
            // CAST: less than CHANNELS.
            let turn = (round / POLLS_PER_CHANGE % u64::from(CHANNELS)) as u16;
            registers.run(match running {
                Running::Each => turn,
                Running::Last => CHANNELS - 1,
            });
        }
        let occupant = read(black_box(&registers));
        if occupant != last {
            last = occupant;
            accountant.observe(&mut slots, Ns::new(round), occupant);
        }
    }
    let measured = start.elapsed();
    black_box(accountant.end(&mut slots, Ns::new(rounds)));
    modelled(measured, registers.take_reads())
}

/// One poll with a change every [`POLLS_PER_CHANGE`], with each source.
fn poll_step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("poll_step_modelled");
    for (name, running) in [("each_channel", Running::Each), ("entry_96", Running::Last)] {
        for source in [Source::EngineStatus, Source::ChannelTable] {
            group.bench_function(BenchmarkId::new(source.name(), name), |bencher| {
                bencher.iter_custom(|rounds| {
                    let mut reader = OccupantReader::new(source, &CHIP, 0);
                    poll(rounds, running, |registers| {
                        reader.read(registers).unwrap_or(Occupant::Unknown)
                    })
                });
            });
        }
        group.bench_function(BenchmarkId::new("prototype", name), |bencher| {
            bencher.iter_custom(|rounds| poll(rounds, running, prototype::sample));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("poll_step");
    let registers = FakeRegisters::default();
    let mut reader = OccupantReader::new(Source::EngineStatus, &CHIP, 0);
    group.bench_function("processor_only", |bencher| {
        bencher.iter(|| reader.read(black_box(&registers)));
    });
    group.finish();
}

/// One change of the running channel, noted.
fn accounting_event(criterion: &mut Criterion) {
    let mut accountant = Accountant::new();
    let mut slots = vec![Slot::default(); MAX_SLOTS];
    accountant.begin(&mut slots, Ns::ZERO, Occupant::Idle);
    let mut now = 0;
    criterion.bench_function("accounting_event", |bencher| {
        bencher.iter(|| {
            now += 1;
            let channel = Chid::from_bits(now % u32::from(CHANNELS));
            let occupant = black_box(Occupant::Channel(channel));
            accountant.observe(&mut slots, Ns::new(now.into()), occupant);
        });
    });
}

/// One decision of each policy, checked and carried into the engine's books.
fn decision(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    for policy in PolicyKind::ALL.iter().copied() {
        for count in COUNTS {
            let config = Config {
                policy,
                inputs: Inputs::Cpu,
                enforce: true,
                ..Config::paper()
            };
            // PANIC: the default settings are in range.
            let engine = || Engine::new(config, 1).expect("settings in range");
            let (totals, clients) = at_decision(count);
            let mut first = engine();
            first.decide(&totals, &mut clients.clone());
            assert_eq!(first.last_fallback(), None, "{}", policy.name());
            group.throughput(Throughput::Elements(count));
            group.bench_function(BenchmarkId::new(policy.name(), count), |bencher| {
                bencher.iter_batched_ref(
                    || (engine(), clients.clone()),
                    |(engine, clients)| engine.decide(&totals, clients),
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

/// What is done with the books locked while one user's clients come, go, move between two cgroups and
/// are lowered. Its clients are the first ones; the others sleep.
fn changes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("changes");
    group.sample_size(10);
    for count in changes::COUNTS {
        for by in [GroupBy::Process, GroupBy::User, GroupBy::Cgroup] {
            let mut gpu = Changing::new(count, by);
            let name = |what: &str| BenchmarkId::new(format!("{what}_by_{}", by.name()), count);
            let mut at = 0;
            group.bench_function(name("move_one"), |bencher| {
                bencher.iter(|| {
                    gpu.move_over(at);
                    at = (at + 1) % MAX_CLIENTS_OF_USER;
                });
            });
            group.bench_function(name("move_2048"), |bencher| {
                bencher.iter(|| (0..MAX_CLIENTS_OF_USER).for_each(|at| gpu.move_over(at)));
            });
            group.bench_function(name("join_and_leave"), |bencher| {
                bencher.iter(|| {
                    gpu.join();
                    gpu.leave(gpu.count() - 1);
                });
            });
            group.bench_function(name("join_and_leave_first"), |bencher| {
                bencher.iter(|| {
                    gpu.join();
                    gpu.leave(0);
                });
            });
            (0..40).for_each(|_| gpu.decide());
            group.bench_function(name("decide"), |bencher| bencher.iter(|| gpu.decide()));
            group.bench_function(name("lower_and_decide"), |bencher| {
                bencher.iter(|| {
                    gpu.lower(0);
                    gpu.decide();
                });
            });
            group.bench_function(name("move_and_decide"), |bencher| {
                bencher.iter(|| {
                    gpu.move_over(0);
                    gpu.decide();
                });
            });
        }
    }
    group.finish();
}

/// A second on the simulator's ideal GPU: commands per second.
fn ideal(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ideal_second");
    let processes = [(1000, 0), (200, 800), (200, 800), (200, 800)];
    let processes = processes.map(|(kernel, sleep)| Process::new(kernel, sleep));
    let config = Config {
        enforce: true,
        ..Config::paper()
    };
    let run = || {
        // PANIC: the default settings are in range.
        let machine = IdealGpu::new(&processes, config, GroupBy::Process);
        let mut machine = machine.expect("settings in range");
        machine.run_until(Ns::from_ms(1000));
        machine.commands()
    };
    let commands = run().iter().sum();
    group.throughput(Throughput::Elements(commands));
    group.bench_function("event_1000_and_3x200_800", |bencher| bencher.iter(run));
    group.finish();
}

/// Ten seconds of the demo in the simulator: GPU events per second.
fn simulator(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulator");
    // PANIC: the scenario is part of the project and has its own tests.
    let scenario = parse("demo.toml", DEMO, &[]).expect("the demo's scenario");
    let run = || loga_eval::run::run(&scenario, 1, &mut None).expect("a run that counts");
    let events = run().gpus.iter().map(|gpu| gpu.events).sum();
    group.throughput(Throughput::Elements(events));
    group.bench_function("demo_10_s", |bencher| bencher.iter(run));
    group.finish();
}

/// Prints all figures and the ratio, and writes `out/bench-host.json`.
fn report(folder: &Path, since: SystemTime, out: &Path) -> std::io::Result<()> {
    let figures = figures::read(folder, since)?;
    if figures.is_empty() {
        return Ok(());
    }
    println!("\n{}", figures::table(&figures));
    println!(
        "\nA poll as in the prototype takes this many times as long as ours (a read is {READ:?}):"
    );
    for name in ["each_channel", "entry_96"] {
        let slow = format!("poll_step_modelled/prototype/{name}");
        let fast = format!("poll_step_modelled/engine-status/{name}");
        if let Some(ratio) = figures::ratio(&figures, &slow, &fast) {
            println!("  {name:<14} {ratio:6.1}");
        }
    }
    std::fs::create_dir_all(out)?;
    let text = serde_json::to_string_pretty(&figures).map_err(std::io::Error::other)?;
    std::fs::write(out.join("bench-host.json"), text + "\n")
}

/// All of `loga stat` for many clients but the call: present names, figures, table and JSON. The
/// clients are this process, whose name is read for each.
fn stat(criterion: &mut Criterion) {
    const CLIENTS: u32 = 2_000;
    let processes = Processes::default();
    let client = |id: u32| uapi::Client {
        id: id.into(),
        // CAST: process ids are positive.
        pid: std::process::id() as i32,
        uid: id % 7,
        measured_ns: u64::from(id) * 1_000,
        gpu_time_ns: u64::from(id) * 10_000,
        ..Default::default()
    };
    let snapshot = Snapshot {
        gpu: 0,
        info: uapi::Gpu {
            polled_ns: 1_000_000_000,
            unpolled_ns: 5_000_000_000,
            ..Default::default()
        },
        clients: (0..CLIENTS).map(client).collect(),
        groups: Vec::new(),
        channels: Vec::new(),
    };
    let named = || {
        let mut snapshots = [snapshot.clone()];
        processes.rename(&mut snapshots);
        Stat::new(&snapshots[0], None)
    };
    let mut group = criterion.benchmark_group("loga_stat_2000_clients");
    group.bench_function("table", |bencher| {
        bencher.iter(|| black_box(table::render(&named())));
    });
    group.bench_function("json", |bencher| {
        bencher.iter(|| black_box(serde_json::to_string(&named()).map(|text| text.len())));
    });
    group.finish();
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = target.join("bench-host");
    let start = SystemTime::now();
    let mut criterion = Criterion::default()
        .output_directory(&folder)
        .without_plots()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    poll_step(&mut criterion);
    accounting_event(&mut criterion);
    decision(&mut criterion);
    changes(&mut criterion);
    ideal(&mut criterion);
    simulator(&mut criterion);
    stat(&mut criterion);
    criterion.final_summary();
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    match report(&folder, start, &root.join("out")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-host: {error}");
            ExitCode::FAILURE
        }
    }
}
