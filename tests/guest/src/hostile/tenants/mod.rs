// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Limits, groups and permissions: what a tenant with a cgroup or subordinate users of its
//! own, and any user with `/dev/loga`, can try.

mod lowering;
mod programs;

pub(super) use programs::{next_line, PROGRAMS};

use self::lowering::{
    user_lowers_its_own_processes_and_never_raises_them, user_lowers_without_filling_the_table,
};
use super::blocking::CROWD_LIFE;
use super::bystander::Bystander;
use super::{model, Program, USER};
use crate::caller::Caller;
use crate::calls::{as_user, knob, without_capabilities, Calls};
use crate::cgroups::Cgroup;
use crate::ktap::{ensure, Test, Verdict};
use crate::limits::within;
use crate::sharing::{changed, for_user, limit, set, weight, PROMPT};
use crate::stage::{Stage, EXACT, LAZY};
use crate::sysfs;
use crate::truth::shares;
use loga::engine::MIN_SPARSE;
use loga::share::{BURST, MAX_CLIENTS_OF_USER};
use loga::uapi;
use loga::units::Ns;
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

crate::ktap::tests![
    limit_holds_in_cgroups_that_its_tenant_made,
    nested_limits_hold_all_at_once,
    leaves_of_a_tenant_share_one_share,
    subordinate_user_counts_as_the_owner_of_its_namespace,
    setuid_program_moves_no_client_to_another_user,
    namespaces_see_their_own_numbers,
    root_without_capabilities_changes_nothing,
    user_lowers_its_own_processes_and_never_raises_them,
    user_lowers_without_filling_the_table,
    three_hundred_cgroups_push_no_total_out: slow,
    process_beyond_the_last_row_keeps_the_limit_of_its_cgroup: slow,
    listener_of_one_user_leaves_room_for_others,
    snapshots_of_a_user_do_not_stall_others: timed,
];

/// The tests of `make test`: all but the last, which takes long.
pub(super) const QUICK: &[Test] = TESTS.split_at(TESTS.len() - 1).0;

/// Two channels that are never empty, with commands short enough to stop on request.
const BUSY: &str = "--kernel-us 200 --depth 2 --wait block --channels 2 --json --seconds 3600";

/// TIMEOUT: longest wait for a client to be measured.
const SOON: Duration = Duration::from_secs(20);

/// A program that waits for a line, and is in this cgroup.
fn in_cgroup(words: &str, cgroup: &Cgroup) -> Result<Program, String> {
    let program = Program::start(words)?;
    cgroup.add_process(program.pid())?;
    Ok(program)
}

/// Percent that clients with this limit, which always want the GPU, have in a window. What they did not
/// use before it they may use in it, and the last decision is for a period; what they used too much
/// before it they pay in it, and they are let go a period late.
fn promised(limit: f64, window_ms: u64) -> RangeInclusive<f64> {
    // CAST (all): milliseconds.
    let part = |time: Ns| time.get() as f64 / 1e6 / window_ms as f64;
    let (burst, period) = (part(BURST), part(MIN_SPARSE));
    limit * (1.0 - period) - 100.0 * period..=limit * (1.0 + burst) + 100.0 * period
}

fn limit_holds_in_cgroups_that_its_tenant_made() -> Verdict {
    const WINDOW_MS: u64 = 2000;
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    let tenant = Cgroup::make("tenant")?;
    tenant.delegate(USER)?;
    set(tenant.chosen()?, limit(10))?;
    let mut shown = Vec::new();
    for place in ["", "inner"] {
        let mut program = in_cgroup("member", &tenant)?;
        let path = tenant.path().join(place);
        program.send(&path.display().to_string())?;
        let client = stage.wait_until_measured(program.pid())?;
        shown.push(client.limit);
        let [share] = shares([program.pid()], 500, WINDOW_MS)?;
        within(
            &format!("percent in {place:?} with a limit of 10"),
            share,
            promised(10.0, WINDOW_MS),
        )?;
    }
    ensure!(shown == [10, 10], "limits shown: {shown:?}");
    stage.check_no_fallback()?;
    stage.teardown()
}

fn process_beyond_the_last_row_keeps_the_limit_of_its_cgroup() -> Verdict {
    const WINDOW_MS: u64 = 3000;
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    let (free, tight) = (Cgroup::make("free")?, Cgroup::make("tight")?);
    set(tight.chosen()?, limit(10))?;
    // The first client of the user: without a limit. It rests, so that the crowd's mappings wait for no
    // decision.
    let mut first = Caller::new()?;
    free.add_process(first.pid())?;
    first.ask(&format!("become {USER}"))?;
    first.ask("open 1")?;
    let mut crowd = in_cgroup("crowd wait", &tight)?;
    crowd.send("")?;
    let said = crowd.line(CROWD_LIFE)?;
    let clients = stage.stat()?.clients.len();
    println!("# {}, {clients} clients", said.trim());
    ensure!(
        clients > MAX_CLIENTS_OF_USER / 2,
        "{clients} clients, not as many as one cgroup may have"
    );
    let mut hog = in_cgroup("member", &tight)?;
    hog.send("")?;
    std::thread::sleep(Duration::from_secs(3));
    let got = shares([hog.pid(), crowd.pid()], 500, WINDOW_MS)?;
    let sum: f64 = got.iter().sum();
    let name = "percent of a hog and a crowd with a limit of 10";
    within(name, sum, promised(10.0, WINDOW_MS))?;
    ensure!(
        stage.client(hog.pid())?.is_none(),
        "the hog has a row of its own: nothing was tested"
    );
    // In a cgroup without a client: a row in place of one of the crowd, with the settings of its own.
    let other = Cgroup::make("other")?;
    set(other.chosen()?, limit(20))?;
    let mut lone = in_cgroup("member", &other)?;
    lone.send("")?;
    let client = stage.wait_until_measured(lone.pid())?;
    ensure!(client.limit == 20, "a limit of {}", client.limit);
    let [share] = shares([lone.pid()], 1000, WINDOW_MS)?;
    let name = "percent of the only client of a cgroup with a limit of 20";
    within(name, share, ..=*promised(20.0, WINDOW_MS).end())?;
    stage.check_no_fallback()?;
    drop((hog, lone, crowd, first));
    stage.teardown()
}

fn nested_limits_hold_all_at_once() -> Verdict {
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    let outer = Cgroup::make("outer")?;
    let (left, right) = (Cgroup::make("outer/left")?, Cgroup::make("outer/right")?);
    set(outer.chosen()?, limit(30))?;
    set(left.chosen()?, limit(10))?;
    let above = set(right.chosen()?, limit(31));
    ensure!(
        above
            .as_ref()
            .is_err_and(|said| said.contains("want at most 30")),
        "a limit above that of the cgroup around it: {above:?}"
    );
    let below = set(outer.chosen()?, limit(9));
    ensure!(
        below
            .as_ref()
            .is_err_and(|said| said.contains("want at least 10")),
        "a limit below that of a cgroup in it: {below:?}"
    );
    let mut programs = [in_cgroup("member", &left)?, in_cgroup("member", &right)?];
    for program in &mut programs {
        program.send("")?;
        stage.wait_until_measured(program.pid())?;
    }
    let pids = [programs[0].pid(), programs[1].pid()];
    const WINDOW_MS: u64 = 3000;
    let [in_left, in_right] = shares(pids, 1000, WINDOW_MS)?;
    let most = |limit: f64| *promised(limit, WINDOW_MS).end();
    within("percent with a limit of 10", in_left, ..=most(10.0))?;
    let both = in_left + in_right;
    within("percent with a limit of 30", both, 24.0..=most(30.0))?;
    stage.check_no_fallback()?;
    drop((programs, left, right));
    stage.teardown()
}

fn leaves_of_a_tenant_share_one_share() -> Verdict {
    // Polled in bursts, with a dispatcher and two processors, clients submit late: they share less.
    let stage = Stage::set(&model(PROMPT), &format!("policy=event enforce=1 {EXACT}"))?;
    sysfs::write("group_by", "cgroup")?;
    let (many, one) = (Cgroup::make("many")?, Cgroup::make("one")?);
    many.delegate(USER)?;
    let mut programs = Vec::new();
    for leaf in ["a", "b", "c"] {
        let mut program = in_cgroup("member", &many)?;
        program.send(&many.path().join(leaf).display().to_string())?;
        programs.push(program);
    }
    let mut other = in_cgroup("member", &one)?;
    other.send("")?;
    programs.push(other);
    for program in &programs {
        stage.wait_until_measured(program.pid())?;
    }
    let pids = [0, 1, 2, 3].map(|at: usize| programs[at].pid());
    let got = shares(pids, 1000, 4000)?;
    let part = got[3] / got.iter().sum::<f64>() * 100.0;
    within(
        "percent next to a tenant with three cgroups",
        part,
        47.0..=53.0,
    )?;
    stage.check_no_fallback()?;
    drop(programs);
    stage.teardown()
}

fn subordinate_user_counts_as_the_owner_of_its_namespace() -> Verdict {
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    set(for_user(USER), limit(20))?;
    let mut program = Program::start("subordinate")?;
    let line = program.line(SOON)?;
    ensure!(line == "ready", "{line:?}");
    let map = format!("/proc/{}/uid_map", program.pid());
    fs::write(&map, "0 100000 65536\n").map_err(|error| format!("{map}: {error}"))?;
    program.send("go")?;
    let client = stage.wait_until_measured(program.pid())?;
    // It runs for a period at a time, some 60 ms: at both ends of the window that is 0.8 points.
    let [share] = shares([program.pid()], 500, 8000)?;
    within(
        "percent of user 100005 with a limit of 20 for the owner of its namespace",
        share,
        16.0..=21.5,
    )?;
    ensure!(client.uid == USER, "counted as user {}", client.uid);
    stage.check_no_fallback()?;
    drop(program);
    stage.teardown()
}

fn setuid_program_moves_no_client_to_another_user() -> Verdict {
    const DISGUISE: &str = "/tmp/disguise";
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    fs::copy(&own, DISGUISE).map_err(|error| format!("{DISGUISE}: {error}"))?;
    let mode = fs::Permissions::from_mode(0o4755);
    fs::set_permissions(DISGUISE, mode).map_err(|error| format!("{DISGUISE}: {error}"))?;
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1 group_by=user")?;
    let user_of = |program: &Program| -> Result<u32, String> {
        let client = stage.wait_until_measured(program.pid())?;
        Ok(client.uid)
    };
    // One that hides behind a setuid program, and one that is a setuid program.
    let disguised = Program::start(&format!("disguised {DISGUISE}"))?;
    let ids = format!("Uid:\t{USER}\t0\t");
    let status = format!("/proc/{}/status", disguised.pid());
    let since = Instant::now();
    while !fs::read_to_string(&status).is_ok_and(|text| text.contains(&ids)) {
        ensure!(since.elapsed() < SOON, "{status} has no {ids:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Readers ask for the users of all processes.
    for _ in 0..20 {
        let user = user_of(&disguised)?;
        ensure!(user == USER, "hidden behind user {user}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let setuid = Command::new(own)
        .args(["as", &USER.to_string(), "--", DISGUISE, "hostile", "plain"])
        .spawn();
    let mut setuid = setuid.map_err(|error| error.to_string())?;
    let client = stage.wait_until_measured(setuid.id());
    let _ = setuid.kill().and_then(|()| setuid.wait());
    let user = client?.uid;
    ensure!(user == USER, "a setuid program is of user {user}");
    drop(disguised);
    fs::remove_file(DISGUISE).map_err(|error| error.to_string())?;
    stage.teardown()
}

fn namespaces_see_their_own_numbers() -> Verdict {
    let stage = Stage::set(&model(LAZY), "")?;
    let (inside, outside) = (Cgroup::make("inside")?, Cgroup::make("outside")?);
    let mut other = in_cgroup("member", &outside)?;
    other.send("")?;
    stage.wait_until_measured(other.pid())?;
    let mut program = in_cgroup("contained", &inside)?;
    program.send("go")?;
    let seen = program.finish()?;
    let lines: Vec<&str> = seen.lines().collect();
    // Its own process is the first one of its namespace; the other process and its cgroup have no
    // number there.
    let own = format!("1 0 {}", inside.chosen()?.id);
    ensure!(lines.contains(&own.as_str()), "{lines:?}, not {own:?}");
    ensure!(lines.contains(&"0 0 0"), "{lines:?}, not \"0 0 0\"");
    ensure!(lines.len() == 2, "{lines:?}");
    drop(other);
    stage.teardown()
}

fn root_without_capabilities_changes_nothing() -> Verdict {
    let stage = Stage::set(&model(LAZY), "")?;
    let ratio = sysfs::read("ratio")?;
    let answers = without_capabilities(|| {
        let calls = Calls::open()?;
        let knobs = knob("ratio", "9")?;
        let own = changed(for_user(0), weight(200));
        let attach = || fs::write("/sys/module/loga/parameters/attach", "0\n");
        Ok([
            ("gpu0/ratio", sysfs::write("ratio", "9").is_ok()),
            ("IOC_CONFIGURE", calls.configure(&knobs).0.is_ok()),
            ("IOC_SET_SHARE", calls.set_share(&own).0.is_ok()),
            ("parameters/attach", attach().is_ok()),
        ])
    })?;
    for (what, done) in answers {
        ensure!(!done, "user 0 without capabilities changed {what}");
    }
    ensure!(sysfs::read("ratio")? == ratio, "the knob was turned");
    stage.teardown()
}

fn three_hundred_cgroups_push_no_total_out() -> Verdict {
    let stage = Stage::set(&model(LAZY), "poll_ms=1 ratio=1")?;
    let (quiet, tenant) = (Cgroup::make("quiet")?, Cgroup::make("tenant")?);
    tenant.delegate(USER)?;
    let mut program = in_cgroup("member", &quiet)?;
    program.send("")?;
    let pid = program.pid();
    stage.wait_for_client(pid, SOON, "measured", |c| c.gpu_time_ns > 50_000_000)?;
    drop(program);
    stage.wait_until_gone(pid)?;
    let words = format!("wander {} 300", tenant.path().display());
    let mut program = in_cgroup(&words, &tenant)?;
    program.send("go")?;
    program.finish()?;
    let totals = Calls::open()?.totals(uapi::SUBJECT_CGROUP, 0);
    let totals = totals.map_err(|errno| errno.to_string())?;
    let others = totals
        .iter()
        .filter(|total| total.flags == uapi::TOTAL_OTHERS);
    let rest: u64 = others.map(|total| total.gpu_time_ns).sum();
    println!(
        "# {} totals, {} us of all others",
        totals.len(),
        rest / 1000
    );
    let id = quiet.chosen()?.id;
    let kept = totals.iter().find(|total| total.id == id);
    ensure!(
        kept.is_some_and(|total| total.gpu_time_ns >= 50_000_000),
        "the total of another cgroup is gone, or less: {kept:?}"
    );
    // As many as there is room for, and one of all others.
    ensure!(totals.len() == 257 && rest > 0, "{} totals", totals.len());
    stage.teardown()
}

fn listener_of_one_user_leaves_room_for_others() -> Verdict {
    let stage = Stage::set(&model(LAZY), "")?;
    let mut program = Program::start("listen")?;
    let line = program.line(SOON)?;
    println!("# one user listens with {} files", line.trim());
    let other = as_user(1001, || {
        let calls = Calls::open()?;
        Ok(calls.subscribe(1))
    })?;
    ensure!(other == Ok(()), "another user: {other:?}");
    drop(program);
    stage.teardown()
}

fn snapshots_of_a_user_do_not_stall_others() -> Verdict {
    const WATCH: Duration = Duration::from_millis(1500);
    let stage = Stage::set(&model(LAZY), "policy=event")?;
    let mut clients = Vec::new();
    for _ in 0..24 {
        clients.push(Program::start("rest")?);
    }
    for program in &clients {
        stage.wait_for_client(program.pid(), SOON, "there", |_| true)?;
    }
    let bystander = Bystander::open()?;
    let alone = bystander.watch(WATCH)?;
    let mut readers = Vec::new();
    for _ in 0..8 {
        readers.push(Program::start("snapshots")?);
    }
    std::thread::sleep(Duration::from_millis(300));
    let beside = bystander.watch(WATCH)?;
    println!("# {alone}\n# beside 8 that take snapshots: {beside}");
    beside.check()?;
    drop((bystander, readers, clients));
    stage.teardown()
}
