// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The demonstration in three acts: one hog and three light clients, first only accounted
//! for, then under the rule of the paper, then under the module's default; LoGA's figures next to
//! those of the model's own log and of the simulator.

mod picture;

use crate::host::hand_over;
use crate::load::Load;
use crate::stage::{client_of, Stage, EXACT};
use crate::truth::Truth;
use loga_cli::device::Device;
use loga_cli::stat::Stat;
use loga_cli::table;
use serde::Serialize;
use std::time::{Duration, Instant};
use throttle::report::Instance;

/// Version of the layout of `demo.json`.
const VERSION: u32 = 2;

/// Number of light clients.
const LIGHTS: usize = 3;

/// Kernels of 1000 us back to back.
const HOG: &str = "--kernel-us 1000 --wait block";
/// Kernels of 200 us, each followed by a pause of 800 us.
const LIGHT: &str = "--kernel-us 200 --sleep-us 800 --wait block";

/// LoGA may differ from the model's log by this many percentage points.
const LOG_POINTS: f64 = 2.0;

#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Length of each act, in seconds of the machine's clock
    #[arg(long, default_value_t = 7, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Parameters of the GPU model
    #[arg(long, default_value = "", value_name = "PARAMETERS")]
    model: String,
    /// Further parameters of LoGA
    #[arg(long, default_value = EXACT, value_name = "PARAMETERS")]
    loga: String,
}

/// One act: parameters, meaning, and the shares that the simulator predicts.
struct Part {
    title: &'static str,
    short: &'static str,
    meaning: &'static str,
    /// Parameters of LoGA.
    parameters: &'static str,
    hog: Reference,
    light: Reference,
}

/// A share of wall time in percent, and how far off it may be.
#[derive(Clone, Copy)]
struct Reference {
    percent: f64,
    points: f64,
}

/// Source: `loga-sim ref`, third mix, and for the last one `loga-sim run --seeds 20
/// eval/scenarios/demo-default.toml`; tolerances of the demonstration.
const PARTS: [Part; 3] = [
    Part {
        title: "1. no policy decides (enforce=0)",
        short: "no policy decides",
        meaning: "The hog has most of the GPU only because its kernels are longer: the GPU takes \
                  one kernel of each client in turn.",
        parameters: "policy=event randomize=0 accounting=burst enforce=0",
        hog: Reference {
            percent: 62.5,
            points: 3.0,
        },
        light: Reference {
            percent: 12.5,
            points: 1.5,
        },
    },
    Part {
        title:
            "2. the paper's rule and phases (enforce=1 policy=event accounting=burst randomize=0)",
        short: "the paper's rule: event",
        meaning:
            "The hog is kept to a fair quarter, and the light clients get more; but they want \
                  less than theirs, and what they leave stays idle: the rule is fair, not \
                  work-conserving.",
        parameters: "policy=event randomize=0 accounting=burst enforce=1",
        hog: Reference {
            percent: 26.6,
            points: 3.0,
        },
        light: Reference {
            percent: 16.8,
            points: 1.5,
        },
    },
    Part {
        title: "3. the module's default (enforce=1: policy=maxmin accounting=sparse)",
        short: "the default: maxmin",
        meaning: "The hog gets what the light clients leave, and no more: the GPU works, and the \
                  light clients get no less than without a policy. LoGA reads the status \
                  register at random instants, not in a loop.",
        parameters: "enforce=1",
        hog: Reference {
            percent: 50.6,
            points: 4.0,
        },
        light: Reference {
            percent: 13.4,
            points: 1.5,
        },
    },
];

/// Time between two points of the picture.
const STEP: Duration = Duration::from_millis(500);

/// An act, as the picture shows it.
struct Act {
    short: &'static str,
    /// Length of a step in seconds.
    step_s: f64,
    /// Of each step, the shares of the clients in percent, the hog first.
    shares: Vec<Vec<f64>>,
}

/// `demo.json`.
#[derive(Serialize)]
struct Report {
    version: u32,
    seconds: u64,
    model: String,
    loga: String,
    parts: Vec<PartReport>,
}

#[derive(Serialize)]
struct PartReport {
    title: &'static str,
    parameters: &'static str,
    meaning: &'static str,
    stat: Stat,
    clients: Vec<ClientReport>,
    model_idle: f64,
    model_switching: f64,
    /// Length of a step in seconds, and of each the shares of the clients in percent.
    step_s: f64,
    shares: Vec<Vec<f64>>,
}

#[derive(Serialize)]
struct ClientReport {
    role: &'static str,
    pid: u32,
    loga_percent: f64,
    model_percent: f64,
    model_busy_percent: f64,
    reference_percent: f64,
    matches_model: bool,
    matches_reference: bool,
    throttle: Instance,
}

/// Shows all acts; `true` if LoGA agrees with the model's log everywhere.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, String> {
    let mut report = Report {
        version: VERSION,
        seconds: arguments.seconds,
        model: arguments.model.clone(),
        loga: arguments.loga.clone(),
        parts: Vec::new(),
    };
    println!("One hog (kernels of 1000 us back to back) and three light clients (200 us, then 800 us pause).");
    for part in &PARTS {
        let result = run_part(part, arguments)?;
        print_part(&result);
        report.parts.push(result);
    }
    let json = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    hand_over("demo.json", &json)?;
    let act = |(part, report): (&Part, &PartReport)| Act {
        short: part.short,
        step_s: report.step_s,
        shares: report.shares.clone(),
    };
    let acts: Vec<_> = PARTS.iter().zip(&report.parts).map(act).collect();
    let svg = picture::svg(&acts).map_err(|error| format!("demo.svg: {error}"))?;
    hand_over("demo.svg", &svg)?;
    let agrees = report
        .parts
        .iter()
        .flat_map(|part| &part.clients)
        .all(|client| client.matches_model);
    println!(
        "LoGA and the model's own log {} within {LOG_POINTS} percentage points.",
        if agrees { "agree" } else { "DO NOT agree" }
    );
    Ok(agrees)
}

/// Whether two shares differ by at most `points` percentage points.
fn near(one: f64, other: f64, points: f64) -> bool {
    (one - other).abs() * 100.0 <= points
}

fn run_part(part: &Part, arguments: &Arguments) -> Result<PartReport, String> {
    let parameters = format!("{} {}", part.parameters, arguments.loga);
    let stage = Stage::set(&arguments.model, &parameters)?;
    let mut loads = vec![Load::start(HOG)?];
    for i in 0..LIGHTS {
        // Other seeds: three clients in step with one another would not be independent.
        loads.push(Load::start(&format!("{LIGHT} --seed {}", i + 1))?);
    }
    stage.wait_until_all_measured(&loads)?;
    Truth::reset()?;
    let pids: Vec<_> = loads.iter().map(Load::pid).collect();
    let (stat, shares) = watch(&pids, Duration::from_secs(arguments.seconds))?;
    let truth = Truth::read()?;
    let mut clients = Vec::new();
    for (i, load) in loads.into_iter().enumerate() {
        let (role, reference) = if i == 0 {
            ("hog", part.hog)
        } else {
            ("light", part.light)
        };
        let pid = load.pid();
        let share = client_of(&stat, pid).and_then(|client| client.share);
        let share = share.ok_or_else(|| format!("LoGA knows no share of process {pid}"))?;
        let model = truth.ran_share(pid);
        clients.push(ClientReport {
            role,
            pid,
            loga_percent: share * 100.0,
            model_percent: model * 100.0,
            model_busy_percent: truth.busy_share(pid) * 100.0,
            reference_percent: reference.percent,
            matches_model: near(share, model, LOG_POINTS),
            matches_reference: near(share, reference.percent / 100.0, reference.points),
            throttle: load.stop()?,
        });
    }
    let window = truth.window_ns.max(1) as f64;
    let report = PartReport {
        title: part.title,
        parameters: part.parameters,
        meaning: part.meaning,
        stat,
        clients,
        model_idle: truth.idle_ns as f64 / window,
        model_switching: truth.switch_ns as f64 / window,
        step_s: STEP.as_secs_f64(),
        shares,
    };
    stage.teardown()?;
    Ok(report)
}

/// LoGA's figures over the time of an act, and the shares of these processes in each step: GPU time
/// over booked time.
fn watch(pids: &[u32], time: Duration) -> Result<(Stat, Vec<Vec<f64>>), String> {
    let device = Device::open().map_err(|error| error.to_string())?;
    let take = || device.snapshot(0).map_err(|error| error.to_string());
    let (first, since) = (take()?, Instant::now());
    let (mut before, mut shares) = (take()?, Vec::new());
    loop {
        std::thread::sleep(STEP);
        let now = take()?;
        let stat = Stat::new(&now, Some(&before));
        let share = |pid: &u32| {
            let client = client_of(&stat, *pid);
            let time = client.map_or(0, |client| client.gpu_time_ns);
            // CAST: (both) times of seconds.
            100.0 * time as f64 / stat.span_ns.max(1) as f64
        };
        shares.push(pids.iter().map(share).collect());
        before = now;
        if since.elapsed() >= time {
            return Ok((Stat::new(&before, Some(&first)), shares));
        }
    }
}

/// A share as a bar, with a mark for each two percent.
fn bar(percent: f64) -> String {
    // CAST: at most fifty marks.
    "#".repeat((percent.clamp(0.0, 100.0) / 2.0).round() as usize)
}

/// What the clients got, as a table.
fn clients(clients: &[ClientReport]) -> String {
    const TITLES: [&str; 8] = [
        "PID",
        "ROLE",
        "LoGA %",
        "MODEL'S LOG %",
        "REFERENCE %",
        "TURNAROUND us",
        "BLOCKED ms",
        "",
    ];
    let row = |client: &ClientReport| {
        vec![
            client.pid.to_string(),
            client.role.to_string(),
            format!("{:.1}", client.loga_percent),
            format!("{:.1}", client.model_percent),
            format!("{:.1}", client.reference_percent),
            format!("{:.0}", client.throttle.summary.turnaround_mean_us),
            format!("{:.0}", client.throttle.summary.blocked_us / 1000.0),
            match client.matches_reference {
                true => String::new(),
                false => "(off the reference)".to_string(),
            },
        ]
    };
    let rows = clients.iter().map(row).collect();
    table::grid(&TITLES, &["ROLE", ""], rows).unwrap_or_default()
}

fn print_part(part: &PartReport) {
    println!("\n== {} ==\n", part.title);
    println!("{}", table::render(&part.stat));
    println!("{}", clients(&part.clients));
    println!(
        "model: idle {:.1} %, switching {:.1} %",
        part.model_idle * 100.0,
        part.model_switching * 100.0
    );
    println!();
    for client in &part.clients {
        let share = client.model_percent;
        println!("{:>6} {share:>5.1} % {}", client.role, bar(share));
    }
    let idle = part.model_idle * 100.0;
    println!(
        "{:>6} {idle:>5.1} % {}",
        "idle",
        bar(idle).replace('#', ".")
    );
    println!("\n{}", part.meaning);
}
