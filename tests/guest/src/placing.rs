// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of the GPU that a program is started on: `loga place` and `loga run --gpu auto`.

use crate::host::hand_over;
use crate::hostile::USER;
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::stage::{client_of, Stage, LAZY};
use crate::tools::objects;
use loga_cli::device::Device;
use loga_cli::stat::Stat;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

crate::ktap::tests![
    program_is_started_on_the_gpu_that_is_wanted_less,
    program_is_started_on_the_least_loaded_of_three_gpus,
    user_that_sees_no_other_clients_gets_the_same_gpu,
    programs_that_start_together_are_spread,
    program_that_a_script_starts_has_the_claim_of_the_script,
    gpus_that_the_environment_allows_are_never_more,
];

/// TIMEOUT: for a mean over half a minute to show what a program wants.
const SHOWN_LIMIT: Duration = Duration::from_secs(60);
/// TIMEOUT: for a program to become a client, and for claims to end with their programs.
const SOON: Duration = Duration::from_secs(20);
/// Pause between two looks.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Want of the hog's GPU, in percent, from which on the choice is made: it wants all of it.
const HOG_PCT: u64 = 20;
/// A program that keeps its GPU busy.
const HOG: &str = "--gpu 0 --kernel-us 1000 --channels 1 --wait block";
/// A light program that runs until it is killed; it names no GPU.
const LIGHT: &str =
    "throttle --kernel-us 200 --sleep-us 800 --channels 1 --wait block --seconds 3600 --json";

/// Programs that start at the same time, and GPUs for them.
const STARTS: usize = 20;
const IDLE_GPUS: usize = 4;

/// A running program; killed when dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The words of a line, as a command of root or of another user.
fn command(uid: Option<u32>, line: &str) -> Result<Command, String> {
    let mut words = line.split(' ');
    let Some(uid) = uid else {
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        return Ok(command);
    };
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.args(["as", &uid.to_string(), "--"]).args(words);
    Ok(command)
}

fn start(mut command: Command) -> Result<Started, String> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Ok(Started(child.map_err(|error| error.to_string())?))
}

fn output(mut command: Command) -> Result<Output, String> {
    command.output().map_err(|error| error.to_string())
}

/// What `loga place --json` says to a user.
fn choice(uid: Option<u32>) -> Result<Value, String> {
    let output = output(command(uid, "loga place --json")?)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "loga place: {complaint}");
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// The first of the chosen GPUs.
fn chosen(choice: &Value) -> Result<u32, String> {
    let gpu = choice["chosen"][0].as_u64();
    let gpu = gpu.and_then(|gpu| u32::try_from(gpu).ok());
    gpu.ok_or_else(|| format!("nothing is chosen: {choice}"))
}

/// Choices by several policies, each with what it was made from: the host lets the simulator choose
/// again.
fn choices_for_the_host() -> Verdict {
    for (policy, program) in [
        ("wait", ""),
        ("wait", " --want 30 --command-us 2000"),
        ("grr", ""),
        ("gmin", " --count 2"),
        ("gwtmin", " --speeds 1,0.5,0.25"),
        ("guf", " --want 30"),
        ("dtf", " --want 30"),
    ] {
        let name = format!("{policy}{}", program.len());
        let path = format!("/tmp/choice-{name}.toml");
        let line = format!("loga place --json --policy {policy}{program} --snapshot {path}");
        let output = output(command(None, &line)?)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{line}: {complaint}");
        let made_from = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        hand_over(&format!("choice-{name}.toml"), &made_from)?;
        let said = String::from_utf8_lossy(&output.stdout);
        hand_over(&format!("choice-{name}.json"), &said)?;
    }
    Ok(())
}

/// Waits until a choice is as wanted.
fn wait_for_choice(limit: Duration, what: &str, so: impl Fn(&Value) -> bool) -> Verdict {
    let since = Instant::now();
    loop {
        let choice = choice(None)?;
        if so(&choice) {
            return Ok(());
        }
        ensure!(since.elapsed() < limit, "{what} after {limit:?}: {choice}");
        std::thread::sleep(CHECK_EVERY);
    }
}

/// Waits until a process is a client; returns of which GPU.
fn gpu_of(pid: u32, gpus: u32) -> Result<u32, String> {
    let device = Device::open().map_err(|error| error.to_string())?;
    let since = Instant::now();
    while since.elapsed() < SOON {
        for gpu in 0..gpus {
            let snapshot = device.snapshot(gpu).map_err(|error| error.to_string())?;
            if client_of(&Stat::new(&snapshot, None), pid).is_some() {
                return Ok(gpu);
            }
        }
        std::thread::sleep(CHECK_EVERY);
    }
    Err(format!("process {pid} is no client within {SOON:?}"))
}

/// Starts a hog on the first of two GPUs and waits until it shows.
fn with_hog(stage: &Stage) -> Result<Load, String> {
    let idle = choice(None)?;
    ensure!(chosen(&idle)? == 0, "not the first of idle GPUs: {idle}");
    let hog = Load::start(HOG)?;
    stage.wait_until_measured(hog.pid())?;
    wait_for_choice(SHOWN_LIMIT, "the hog does not show", |choice| {
        let want = choice["gpus"][0]["want_pct"].as_u64();
        want.is_some_and(|want| want >= HOG_PCT)
    })?;
    Ok(hog)
}

/// Starts a light program as this user: it has to run where `loga place` says, on this one, the last
/// of the GPUs.
fn light_goes_where_it_is_said(uid: Option<u32>, wanted: u32) -> Verdict {
    let said = choice(uid)?;
    ensure!(
        chosen(&said)? == wanted,
        "not GPU {wanted} is chosen: {said}"
    );
    let light = start(command(uid, &format!("loga run --gpu auto -- {LIGHT}"))?)?;
    let pid = light.0.id();
    let gpu = gpu_of(pid, wanted + 1)?;
    ensure!(
        gpu == wanted,
        "process {pid} is on GPU {gpu}, not on {wanted}: {said}"
    );
    let environment =
        fs::read(format!("/proc/{pid}/environ")).map_err(|error| error.to_string())?;
    let environment = String::from_utf8_lossy(&environment);
    let variables: Vec<&str> = environment.split('\0').collect();
    for variable in [
        &format!("LOGA_GPU={wanted}"),
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        &format!("CUDA_VISIBLE_DEVICES={wanted}"),
    ] {
        ensure!(
            variables.contains(&variable),
            "no {variable}: {variables:?}"
        );
    }
    drop(light);
    Ok(())
}

fn program_is_started_on_the_gpu_that_is_wanted_less() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus=2"), "")?;
    let hog = with_hog(&stage)?;
    light_goes_where_it_is_said(None, 1)?;
    let explained = objects(&format!("place --explain {} --json", hog.pid()))?;
    let other = &explained[0]["other"]["gpu"];
    ensure!(*other == 1, "not explained by GPU 1: {explained:?}");
    drop(hog);
    stage.teardown()
}

fn program_is_started_on_the_least_loaded_of_three_gpus() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus=3"), "")?;
    let hog = with_hog(&stage)?;
    let loads = [
        "--gpu 1 --kernel-us 400 --sleep-us 600 --channels 1 --wait block",
        "--gpu 2 --kernel-us 100 --sleep-us 900 --channels 1 --wait block",
    ];
    let loads = [Load::start(loads[0])?, Load::start(loads[1])?];
    // Each has one client, so that only what they want tells the GPUs apart.
    wait_for_choice(SHOWN_LIMIT, "the loads do not show", |choice| {
        let want = |gpu: usize| choice["gpus"][gpu]["want_pct"].as_u64().unwrap_or(0);
        want(0) > want(1) && want(1) > want(2) && want(2) > 0
    })?;
    choices_for_the_host()?;
    light_goes_where_it_is_said(None, 2)?;
    drop((hog, loads));
    stage.teardown()
}

fn user_that_sees_no_other_clients_gets_the_same_gpu() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus=2"), "")?;
    let hog = with_hog(&stage)?;
    let said = choice(Some(USER))?;
    let first = &said["gpus"][0];
    ensure!(first["clients"] == 0, "a user sees the hog: {said}");
    ensure!(first["unseen"] == 1, "the hog is not counted: {said}");
    light_goes_where_it_is_said(Some(USER), 1)?;
    drop(hog);
    stage.teardown()
}

fn programs_that_start_together_are_spread() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus={IDLE_GPUS}"), "")?;
    // They never use their GPU: each counts by its claim as long as it runs.
    let script = "echo $LOGA_GPU; exec sleep 25";
    let starts = (0..STARTS).map(|_| {
        let mut command = Command::new("loga");
        command.args(["run", "--gpu", "auto", "--", "sh", "-c", script]);
        start(command)
    });
    let mut starts: Vec<Started> = starts.collect::<Result<_, _>>()?;
    let mut counts = [0usize; IDLE_GPUS];
    for Started(child) in &mut starts {
        let mut line = String::new();
        if let Some(stdout) = &mut child.stdout {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(|error| error.to_string())?;
        }
        let gpu = line.trim().parse::<usize>().ok();
        let count = gpu.and_then(|gpu| counts.get_mut(gpu));
        *count.ok_or_else(|| format!("started on {line:?}"))? += 1;
    }
    println!("# {counts:?} programs");
    let even = STARTS / IDLE_GPUS;
    let is_even = counts.iter().all(|count| count.abs_diff(even) <= 1);
    ensure!(is_even, "{counts:?} programs, not {even} each");
    let claimed = choice(None)?;
    for (gpu, count) in counts.iter().enumerate() {
        let claims = &claimed["gpus"][gpu]["claims"];
        ensure!(*claims == *count, "{claims} claims, not {count}: {claimed}");
    }
    drop(starts);
    wait_for_choice(SOON, "claims of programs that are gone", |choice| {
        let gpus = choice["gpus"].as_array();
        gpus.is_some_and(|gpus| gpus.iter().all(|gpu| gpu["claims"] == 0))
    })?;
    stage.teardown()
}

/// A shell that starts a light program and waits for it.
const SCRIPT: &str =
    "throttle --kernel-us 200 --sleep-us 800 --channels 1 --wait block --seconds 3 --json; true";

fn program_that_a_script_starts_has_the_claim_of_the_script() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus=2"), "")?;
    let mut command = Command::new("loga");
    command.args(["run", "--gpu", "auto", "--", "sh", "-c", SCRIPT]);
    let mut script = start(command)?;
    let is = |choice: &Value, what: &str| {
        let gpus = choice["gpus"].as_array();
        let counts = gpus.into_iter().flatten().map(|gpu| gpu[what].as_u64());
        counts.flatten().sum::<u64>()
    };
    wait_for_choice(SOON, "no client of the script", |choice| {
        is(choice, "clients") == 1
    })?;
    // One program, not a client and a claim besides; what it claimed counts beyond what it shows.
    let said = choice(None)?;
    ensure!(is(&said, "claims") == 0, "it counts twice: {said}");
    ensure!(is(&said, "claimed_pct") > 0, "the claim is gone: {said}");
    let ended = script.0.wait().map_err(|error| error.to_string())?;
    ensure!(ended.success(), "{ended}");
    drop(script);
    stage.teardown()
}

fn gpus_that_the_environment_allows_are_never_more() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus=2"), "")?;
    let run = |gpu: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new("loga");
        let script = "echo $CUDA_VISIBLE_DEVICES $LOGA_GPU";
        command.args(["run", "--gpu", gpu, "--", "sh", "-c", script]);
        command.envs(variables.iter().copied());
        let output = output(command)?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        Ok::<_, String>((output.status.code(), said))
    };
    let by_bus = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    let visible = |list| ("CUDA_VISIBLE_DEVICES", list);
    let (status, said) = run("auto", &[by_bus, visible("1")])?;
    ensure!(status == Some(0) && said == "1 1", "{status:?}: {said}");
    for (gpu, variables, hint) in [
        (
            "auto:2",
            &[by_bus, visible("1")][..],
            "only 1 may be chosen",
        ),
        ("0", &[by_bus, visible("1")], "does not allow GPU 0"),
        ("auto", &[by_bus, visible("")], "no GPU may be chosen"),
        ("auto", &[visible("1")], "set CUDA_DEVICE_ORDER=PCI_BUS_ID"),
        ("auto:3", &[], "want 3 GPUs, but only 2"),
        ("2", &[], "want 0 to 1"),
    ] {
        let (status, said) = run(gpu, variables)?;
        ensure!(
            status == Some(125),
            "{gpu} {variables:?}: {status:?} {said}"
        );
        ensure!(said.contains(hint), "{gpu} {variables:?}: {said}");
        ensure!(said.lines().count() == 1, "{gpu} {variables:?}: {said}");
    }
    stage.teardown()
}
