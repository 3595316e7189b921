// SPDX-License-Identifier: GPL-2.0

//! [tool] The demonstration: one hog and three light clients, first only accounted for, then shared
//! fairly; LoGA's figures beside the model's own log and the reference calculation.

use crate::load::Load;
use crate::stage::client_of;
use crate::stage::near;
use crate::stage::Stage;
use crate::stage::EXACT;
use crate::truth::Truth;
use loga_cli::stat::Stat;
use loga_cli::table;
use serde::Serialize;
use std::fs;
use std::fs::File;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use throttle::report::Instance;

/// The rule and the phases of the paper, which the reference shares are those of.
const RULE: &str = "policy=event randomize=0 accounting=burst";

/// Version of the layout of `demo.json`.
const VERSION: u32 = 1;

/// Number of light clients.
const LIGHTS: usize = 3;

/// Kernels of 1000 us back to back.
const HOG: &str = "--kernel-us 1000 --wait block";
/// Kernels of 200 us, each followed by 800 us of something else.
const LIGHT: &str = "--kernel-us 200 --sleep-us 800 --wait block";

/// LoGA may differ from the model's log by so many percentage points.
const LOG_POINTS: f64 = 2.0;

/// Longest wait for all clients to be known.
const START_LIMIT: Duration = Duration::from_secs(20);

#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Length of each of the two parts, in seconds of the machine's clock
    #[arg(long, default_value_t = 7, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Parameters of the GPU model
    #[arg(long, default_value = "", value_name = "PARAMETERS")]
    model: String,
    /// Further parameters of LoGA
    #[arg(long, default_value = EXACT, value_name = "PARAMETERS")]
    loga: String,
}

/// One part: what is loaded, and what the reference calculation says comes out.
struct Part {
    title: &'static str,
    enforce: u32,
    hog: Reference,
    light: Reference,
}

/// A share of wall time in percent, and how far off it may be.
#[derive(Clone, Copy)]
struct Reference {
    percent: f64,
    points: f64,
}

/// Source: design.md, section 5, third row; tolerances of the demonstration.
const PARTS: [Part; 2] = [
    Part {
        title: "accounting only (enforce=0)",
        enforce: 0,
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
        title: "fair sharing (enforce=1, policy=event)",
        enforce: 1,
        hog: Reference {
            percent: 26.6,
            points: 3.0,
        },
        light: Reference {
            percent: 16.8,
            points: 1.5,
        },
    },
];

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
    enforce: u32,
    stat: Stat,
    clients: Vec<ClientReport>,
    model_idle: f64,
    model_switching: f64,
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

/// Shows both parts; `true` if LoGA agrees with the model's log everywhere.
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

fn run_part(part: &Part, arguments: &Arguments) -> Result<PartReport, String> {
    let parameters = format!("{RULE} enforce={} {}", part.enforce, arguments.loga);
    let stage = Stage::set(&arguments.model, &parameters)?;
    let mut loads = vec![Load::start(HOG)?];
    for i in 0..LIGHTS {
        // Three clients in step with one another would not be three independent ones.
        loads.push(Load::start(&format!("{LIGHT} --seed {}", i + 1))?);
    }
    for load in &loads {
        stage.wait_for_client(load.pid(), START_LIMIT, "measured", |client| {
            client.measured_ns > 0
        })?;
    }
    Truth::reset()?;
    let stat = stage.stat_during(Duration::from_secs(arguments.seconds))?;
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
        let model = truth.held_share(pid);
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
        enforce: part.enforce,
        stat,
        clients,
        model_idle: truth.idle_ns as f64 / window,
        model_switching: truth.switch_ns as f64 / window,
    };
    stage.strike()?;
    Ok(report)
}

fn print_part(part: &PartReport) {
    println!("\n== {} ==\n", part.title);
    println!("{}", table::render(&part.stat));
    println!("  PID  ROLE    LoGA %  MODEL'S LOG %  REFERENCE %  TURNAROUND us  BLOCKED ms");
    for client in &part.clients {
        println!(
            "{:>5}  {:<6} {:>7.1} {:>14.1} {:>12.1} {:>14.0} {:>11.0}{}",
            client.pid,
            client.role,
            client.loga_percent,
            client.model_percent,
            client.reference_percent,
            client.throttle.summary.turnaround_mean_us,
            client.throttle.summary.blocked_us / 1000.0,
            if client.matches_reference {
                ""
            } else {
                "  (off the reference)"
            }
        );
    }
    println!(
        "model: idle {:.1} %, switching {:.1} %",
        part.model_idle * 100.0,
        part.model_switching * 100.0
    );
}

/// Gives a file to the host, through the program that the machine has for it.
fn hand_over(name: &str, text: &str) -> Result<(), String> {
    let path = format!("/tmp/{name}");
    fs::write(&path, text).map_err(|error| format!("{path}: {error}"))?;
    let input = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    let status = Command::new("sendfile")
        .arg(name)
        .stdin(Stdio::from(input))
        .status()
        .map_err(|error| format!("sendfile: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("sendfile {name}: {status}"))
    }
}
