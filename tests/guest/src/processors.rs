// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of turns as they are told, and of `loga agent cpu`, which lets the processor follow
//! the GPU. Those that need the controller cpu of cgroups run on a kernel that has it (`make
//! test-slurm`).

use crate::calls::{as_user, Calls};
use crate::cgroups::Cgroup;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::stage::{Stage, LAZY};
use crate::sysfs;
use crate::truth::Truth;
use loga::uapi;
use loga::uapi::Event;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

crate::ktap::tests![
    turns_are_told_to_those_who_ask_and_may_see_them,
    agent_names_cgroups_without_a_weight_and_ends_with_a_signal,
];

crate::ktap::tests![const WITH_WEIGHTS;
    spinning_clients_beside_work_get_more_with_the_agent: timed,
    spinning_clients_alone_get_the_same_with_the_agent: timed,
    weights_are_put_back_by_an_agent_that_ends_and_after_one_that_was_killed,
];

/// Turns of 30 ms.
const TURNS: &str = "policy=credit enforce=1 accounting=burst";
/// TIMEOUT: what happens within a turn, or at the start of a program.
const SOON: Duration = Duration::from_secs(10);

/// Waits until something holds.
fn wait_until(what: &str, holds: impl Fn() -> Result<bool, String>) -> Verdict {
    let began = Instant::now();
    while !holds()? {
        ensure!(began.elapsed() < SOON, "after {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Turns that were told, all of them in order.
fn turns(calls: &Calls) -> Result<Vec<Event>, String> {
    let events = calls.events()?;
    ensure!(
        events.iter().all(|event| event.kind == uapi::EVENT_TURN),
        "other kinds: {events:?}"
    );
    Ok(events)
}

fn listener(mask: u64) -> Result<Calls, String> {
    let calls = Calls::open()?;
    calls.subscribe(mask).map_err(|errno| errno.to_string())?;
    Ok(calls)
}

fn turns_are_told_to_those_who_ask_and_may_see_them() -> Verdict {
    let stage = Stage::set(LAZY, TURNS)?;
    let load = "--kernel-us 1000 --depth 2 --wait block --channels 2";
    let loads = [Load::start(load)?, Load::start_as(1000, load)?];
    stage.wait_until_all_measured(&loads)?;
    let pids = [0, 1].map(|at: usize| i32::try_from(loads[at].pid()).unwrap_or(0));
    let [asks, rare] = [
        listener(1 << uapi::EVENT_TURN)?,
        listener(uapi::EVENTS_RARE)?,
    ];
    let of_user = as_user(1000, || listener(1 << uapi::EVENT_TURN))?;
    std::thread::sleep(Duration::from_millis(600));
    let groups = stage.stat()?.groups;
    let have_it = groups.iter().filter(|group| group.turn).count();
    ensure!(have_it == 1, "{have_it} groups have the turn");
    sysfs::write("policy", "none")?;
    wait_until("a group has the turn", || {
        Ok(!stage.stat()?.groups.iter().any(|group| group.turn))
    })?;
    let told = turns(&asks)?;
    let seen: Vec<i32> = told.iter().map(|event| event.pid).collect();
    // 600 ms are 20 turns of 30 ms; at most one of them begins before the listeners do, and drains
    // of 2 ms lengthen each.
    ensure!(told.len() >= 15, "{} turns: {seen:?}", told.len());
    let (last, turns_of_both) = seen.split_last().ok_or("no turn")?;
    ensure!(*last == 0, "none has the turn in the end: {seen:?}");
    let alternate = turns_of_both.windows(2).all(|two| two[0] != two[1]);
    let known = turns_of_both.iter().all(|pid| pids.contains(pid));
    ensure!(alternate && known, "{pids:?} take turns: {seen:?}");
    let seen: Vec<i32> = turns(&of_user)?.iter().map(|event| event.pid).collect();
    // Whose turn comes before its first is not told.
    let alternate = seen.windows(2).all(|two| (two[0] == 0) != (two[1] == 0));
    let known = seen.iter().all(|pid| *pid == 0 || *pid == pids[1]);
    ensure!(
        seen.len() >= 15 && alternate && known,
        "of {pids:?} the second is told: {seen:?}"
    );
    let kinds: Vec<u32> = rare.events()?.iter().map(|event| event.kind).collect();
    ensure!(
        !kinds.contains(&uapi::EVENT_TURN) && kinds.contains(&uapi::EVENT_POLICY),
        "not asked for: {kinds:?}"
    );
    stage.check_no_fallback()?;
    drop((asks, rare, of_user, loads));
    stage.teardown()
}

/// `loga agent cpu`; killed when dropped.
struct Agent(Child);

impl Agent {
    fn start() -> Result<Self, String> {
        let mut command = Command::new("loga");
        command.args(["agent", "cpu"]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("loga: {error}"))?;
        Ok(Agent(child))
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = i32::try_from(self.0.id()).map_err(|error| error.to_string())?;
        kill(Pid::from_raw(pid), signal).map_err(|errno| errno.to_string())
    }

    /// Sends a signal and waits for the end.
    fn end(mut self, signal: Signal) -> Result<Output, String> {
        self.signal(signal)?;
        let status = self.0.wait().map_err(|error| error.to_string())?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let read = |from: Option<&mut dyn std::io::Read>, into: &mut Vec<u8>| {
            from.map_or(Ok(0), |from| from.read_to_end(into))
        };
        let out = self
            .0
            .stdout
            .as_mut()
            .map(|out| out as &mut dyn std::io::Read);
        read(out, &mut stdout).map_err(|error| error.to_string())?;
        let err = self
            .0
            .stderr
            .as_mut()
            .map(|err| err as &mut dyn std::io::Read);
        read(err, &mut stderr).map_err(|error| error.to_string())?;
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }

    /// Ends it as a user does; returns what it has said.
    fn stop(self) -> Result<String, String> {
        let output = self.end(Signal::SIGTERM)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "loga agent cpu: {complaint}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn agent_names_cgroups_without_a_weight_and_ends_with_a_signal() -> Verdict {
    let stage = Stage::set(LAZY, TURNS)?;
    // Its parent passes no controller on.
    let outer = Cgroup::make("outer")?;
    let inner = Cgroup::make("outer/inner")?;
    let load = "--kernel-us 1000 --depth 2 --wait block --channels 2";
    let loads = [Load::start(load)?, Load::start(load)?];
    inner.add_process(loads[0].pid())?;
    stage.wait_until_all_measured(&loads)?;
    let agent = Agent::start()?;
    std::thread::sleep(Duration::from_millis(1000));
    let said = agent.stop()?;
    let lines: Vec<&str> = said.lines().collect();
    let wanted = [
        "the cgroup /outer/inner has no cpu.weight: want +cpu in cgroup.subtree_control of /outer"
            .to_string(),
        format!(
            "process {} is in the cgroup /, which has no weight",
            loads[1].pid()
        ),
    ];
    // Each once.
    ensure!(
        lines.len() == 2
            && wanted
                .iter()
                .all(|begin| lines.iter().any(|line| line.starts_with(begin))),
        "{said}"
    );
    stage.check_no_fallback()?;
    drop((loads, inner, outer));
    stage.teardown()
}

/// Whether the kernel gives cgroups weights on the processors. Nothing stays mounted.
pub(crate) fn can_weigh() -> bool {
    let script = "mkdir -p /tmp/probe && mount -t cgroup2 none /tmp/probe || exit 1
        grep -qw cpu /tmp/probe/cgroup.controllers
        found=$?
        umount /tmp/probe
        exit $found";
    let status = Command::new("sh").args(["-c", script]).status();
    status.is_ok_and(|status| status.success())
}

/// Two cgroups with weights on the processors.
fn weighed() -> Result<[Cgroup; 2], String> {
    let cgroups = [Cgroup::make("one")?, Cgroup::make("other")?];
    let root = cgroups[0].path().parent().ok_or("no root")?;
    let file = root.join("cgroup.subtree_control");
    fs::write(&file, "+cpu").map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(cgroups)
}

/// The weight of a cgroup.
fn weight(cgroup: &Cgroup) -> Result<String, String> {
    let text = fs::read_to_string(cgroup.path().join("cpu.weight"));
    text.map(|text| text.trim().to_string())
        .map_err(|error| error.to_string())
}

/// A program in a cgroup that computes on the first processor and never uses a GPU; killed when
/// dropped.
struct Work(Child);

impl Work {
    fn start_in(cgroup: &Cgroup) -> Result<Self, String> {
        let mut command = Command::new("taskset");
        command.args(["1", "sh", "-c", "while :; do :; done"]);
        let child = command.spawn().map_err(|error| error.to_string())?;
        let work = Work(child);
        cgroup.add_process(work.0.id())?;
        Ok(work)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Clients that spin for each of their kernels.
const SPINNING: &str = "--kernel-us 600 --wait spin --channels 2";
/// Their kernels, in us.
const KERNEL_US: f64 = 600.0;
/// How long is measured: some hundred turns.
const SPAN: Duration = Duration::from_secs(4);

/// Kernels a second of two spinning clients on one processor, each in a cgroup of its own, without
/// and with the agent; with a program beside each client that computes, or none.
fn kernels_a_second(with_work: bool) -> Result<[f64; 2], String> {
    let stage = Stage::set(LAZY, TURNS)?;
    let cgroups = weighed()?;
    let mut loads = Vec::new();
    let mut works = Vec::new();
    for cgroup in &cgroups {
        let load = Load::start_on(0, SPINNING)?;
        cgroup.add_process(load.pid())?;
        loads.push(load);
    }
    stage.wait_until_all_measured(&loads)?;
    for cgroup in cgroups.iter().filter(|_| with_work) {
        works.push(Work::start_in(cgroup)?);
    }
    let measure = || -> Result<f64, String> {
        std::thread::sleep(Duration::from_millis(200));
        Truth::reset()?;
        std::thread::sleep(SPAN);
        let truth = Truth::read()?;
        let shares = loads.iter().map(|load| truth.ran_share(load.pid()));
        let shares: Vec<f64> = shares.collect();
        println!("# shares {shares:.3?}");
        Ok(shares.iter().sum::<f64>() * 1e6 / KERNEL_US)
    };
    let without = measure()?;
    let agent = Agent::start()?;
    let raised = || Ok(weight(&cgroups[0])? != "100" || weight(&cgroups[1])? != "100");
    wait_until("no weight is raised", raised)?;
    let with = measure()?;
    let said = agent.stop()?;
    println!("# {without:.0} kernels a second without the agent, {with:.0} with it; {said}");
    ensure!(said.is_empty(), "the agent says: {said}");
    for cgroup in &cgroups {
        let left = weight(cgroup)?;
        ensure!(left == "100", "weight {left} is left");
    }
    stage.check_no_fallback()?;
    drop((works, loads, cgroups));
    stage.teardown()?;
    Ok([without, with])
}

fn spinning_clients_beside_work_get_more_with_the_agent() -> Verdict {
    let [without, with] = kernels_a_second(true)?;
    // Of the processor a client that has the turn gets half of what its cgroup gets: half of 1/2
    // without the agent, half of 1000/1100 with it, which is 20/11 as much.
    within(
        "kernels with the agent to without",
        with / without,
        1.2..=20.0 / 11.0,
    )
}

fn spinning_clients_alone_get_the_same_with_the_agent() -> Verdict {
    let [without, with] = kernels_a_second(false)?;
    // Whose turn it is not sleeps at its next store, and takes no processor from the other: it had
    // to compute for a tenth of the time at least to change that.
    within(
        "kernels with the agent to without",
        with / without,
        0.95..=1.05,
    )
}

fn weights_are_put_back_by_an_agent_that_ends_and_after_one_that_was_killed() -> Verdict {
    let stage = Stage::set(LAZY, TURNS)?;
    let cgroups = weighed()?;
    fs::write(cgroups[0].path().join("cpu.weight"), "37").map_err(|error| error.to_string())?;
    let load = "--kernel-us 1000 --depth 2 --wait block --channels 2";
    let loads = [Load::start(load)?, Load::start(load)?];
    for (cgroup, load) in cgroups.iter().zip(&loads) {
        cgroup.add_process(load.pid())?;
    }
    stage.wait_until_all_measured(&loads)?;
    let weights =
        || -> Result<[String; 2], String> { Ok([weight(&cgroups[0])?, weight(&cgroups[1])?]) };
    let (before, raised) = (["37", "100"], ["370", "1000"]);
    let agent = Agent::start()?;
    for at in [0, 1] {
        wait_until("a weight that is not raised", || {
            Ok(weights()?[at] == raised[at])
        })?;
        wait_until("a weight that stays raised", || {
            Ok(weights()?[at] == before[at])
        })?;
    }
    agent.stop()?;
    ensure!(weights()? == before, "after its end: {:?}", weights()?);
    // At the end of a turn it may have nothing raised.
    let mut left = before.map(str::to_string);
    for _ in 0..20 {
        let agent = Agent::start()?;
        wait_until("no weight is raised", || Ok(weights()? != before))?;
        agent.end(Signal::SIGKILL)?;
        left = weights()?;
        if left != before {
            break;
        }
    }
    ensure!(left != before, "nothing was left raised");
    sysfs::write("policy", "none")?;
    let agent = Agent::start()?;
    wait_until("what was left is not put back", || Ok(weights()? == before))?;
    let said = agent.stop()?;
    ensure!(said.contains("again, as before the last agent"), "{said}");
    let file = fs::metadata("/run/loga-cpu/raised");
    ensure!(file.is_err(), "its file is left: {file:?}");
    stage.check_no_fallback()?;
    drop((loads, cgroups));
    stage.teardown()
}
