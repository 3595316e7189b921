// SPDX-License-Identifier: GPL-2.0

//! `[tool]` GPUs that belong to another driver, are unbound, sleep, do not answer, and return.

use super::{model, Act, Program};
use crate::caller::Caller;
use crate::kernel_log::KernelLog;
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::modules;
use crate::modules::LOGA;
use crate::sharing::{for_process, limit, set};
use crate::stage::{Stage, LAZY, LONG_PHASES};
use loga::uapi;
use loga_cli::stat::Stat;
use std::fs;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

crate::ktap::tests![
    gpu_of_another_driver_is_left_alone,
    gpu_that_cannot_be_followed_does_not_refuse_others,
    opens_do_not_fill_the_log,
    gpu_that_answers_again_is_taken_back,
    machine_sleeps_with_a_throttled_client,
    gpu_taken_from_its_driver_lets_all_clients_run,
    gpu_that_its_driver_gets_later_is_followed,
    gpu_of_another_kind_that_its_driver_gets_later_is_counted,
    gpu_that_is_removed_and_found_anew_is_another_one,
];

/// See [`super::PROGRAMS`].
pub(super) const PROGRAMS: &[(&str, Act)] = &[("open-gpu", open_gpu)];

/// Opens of a GPU, one after the other.
const OPENS: u32 = 160;
/// The PCI driver of the model.
const DRIVER: &str = "/sys/bus/pci/drivers/loga_model";

/// `open-gpu PATH COUNT`: opens and closes a node COUNT times.
fn open_gpu(arguments: &[String]) -> Result<(), String> {
    let [path, count] = arguments else {
        return Err("open-gpu PATH COUNT".to_string());
    };
    let count: u32 = count.parse().map_err(|_| "COUNT: not a number")?;
    for _ in 0..count {
        File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

/// The PCI address that `fdinfo` names for a node.
fn address_of(path: &str) -> Result<Option<String>, String> {
    let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))
        .map_err(|error| error.to_string())?;
    let find = |line: &str| Some(line.strip_prefix("drm-pdev:")?.trim().to_string());
    Ok(info.lines().find_map(find))
}

fn gpu_of_another_driver_is_left_alone() -> Verdict {
    let stage = Stage::set(&model(&format!("gpus=2 unbound=1 {LAZY}")), "")?;
    // The driver has the second card only, and calls it /dev/nvidia0.
    let address = address_of("/dev/nvidia0")?;
    ensure!(
        address.as_deref() == Some("0001:00:01.0"),
        "/dev/nvidia0 is said to be {address:?}"
    );
    let caller = Caller::with_channels(1)?;
    stage.wait_for_client(caller.pid(), Duration::from_secs(3), "a client", |_| true)?;
    let stat = stage.stat()?;
    ensure!(stat.open_files > 0, "no file of gpu 0 is open");
    ensure!(
        !fs::exists("/sys/class/misc/loga/gpu1").unwrap_or(true),
        "LoGA follows the other driver's card"
    );
    drop(caller);
    stage.teardown()?;
    // The card that the driver gets first is nvidia0, wherever it sits on the bus.
    let stage = Stage::without_loga(&model(&format!("gpus=2 unbound=3 {LAZY}")))?;
    for address in ["0001:00:01.0", "0001:00:00.0"] {
        bind(address)?;
    }
    stage.add_loga("")?;
    for (path, right) in [
        ("/dev/nvidia0", "0001:00:01.0"),
        ("/dev/nvidia1", "0001:00:00.0"),
    ] {
        let address = address_of(path)?;
        ensure!(
            address.as_deref() == Some(right),
            "{path} is said to be {address:?}, not {right}"
        );
    }
    stage.teardown()
}

/// Binds a card to the model's driver that was left to other drivers.
fn bind(address: &str) -> Verdict {
    fs::write(format!("{DRIVER}/bind"), address).map_err(|error| format!("bind {address}: {error}"))
}

/// The parameter `refusals` has the line of the log about the Turing, and no other.
fn says_why_a_turing_is_refused() -> Verdict {
    let path = "/sys/module/loga/parameters/refusals";
    let said = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let line =
        "0001:00:00.0: not followed: chip 0x164 (Turing) is not supported, want Kepler to Pascal\n";
    ensure!(said == line, "{path}: {said:?}");
    Ok(())
}

fn gpu_that_cannot_be_followed_does_not_refuse_others() -> Verdict {
    let stage = Stage::without_loga(&model(&format!("gpus=2 turing=1 {LAZY}")))?;
    let mut log = KernelLog::from_now()?;
    stage.add_loga("")?;
    let refusals = log.with(&["loga", "0001:00:00.0", "0x164"])?;
    ensure!(
        refusals.len() == 1,
        "{} lines about the Turing",
        refusals.len()
    );
    says_why_a_turing_is_refused()?;
    let unfollowed = stage.stat()?.unfollowed;
    ensure!(unfollowed == 1, "{unfollowed} GPUs are not followed");
    let address = address_of("/dev/nvidia1")?;
    ensure!(
        address.as_deref() == Some("0001:00:01.0"),
        "/dev/nvidia1 is said to be {address:?}"
    );
    let load = Load::start("--gpu 1 --kernel-us 100 --wait block --channels 1")?;
    stage.wait_until_measured(load.pid())?;
    load.stop()?;
    stage.teardown()
}

fn opens_do_not_fill_the_log() -> Verdict {
    let stage = Stage::without_loga(&model(LAZY))?;
    stage.set_lost(true)?;
    stage.add_loga("")?;
    let mut log = KernelLog::from_now()?;
    Program::start(&format!("open-gpu /dev/nvidia0 {OPENS}"))?.finish()?;
    let lines = log.with(&["loga: "])?.len();
    println!("# {OPENS} opens, {lines} lines");
    ensure!(lines <= 2, "{lines} lines after {OPENS} opens of a user");
    stage.set_lost(false)?;
    stage.teardown()
}

/// Waits until the GPU time of a process grows.
fn wait_until_measured(stage: &Stage, pid: u32, limit: Duration) -> Verdict {
    let before = stage.client(pid)?.map_or(0, |client| client.measured_ns);
    stage
        .wait_for_client(pid, limit, "measured again", |client| {
            client.measured_ns > before
        })
        .map(|_| ())
}

fn gpu_that_answers_again_is_taken_back() -> Verdict {
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    let mut log = KernelLog::from_now()?;
    let hog = Load::start("--kernel-us 1000 --wait block --channels 1")?;
    let other = Load::start("--kernel-us 100 --wait block --channels 1")?;
    stage.wait_until_throttled(hog.pid())?;
    stage.set_lost(true)?;
    std::thread::sleep(Duration::from_millis(500));
    ensure!(stage.stat()?.lost, "a GPU that does not answer is not lost");
    stage.set_lost(false)?;
    let since = Instant::now();
    while stage.stat()?.lost {
        ensure!(
            since.elapsed() < Duration::from_millis(2500),
            "lost for 2.5 s although it answers"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("# taken back after {:?}", since.elapsed());
    wait_until_measured(&stage, other.pid(), Duration::from_secs(3))?;
    stage.wait_until_throttled(hog.pid())?;
    for what in ["not answer any more", "answers again"] {
        let lines = log.with(&["loga", what])?.len();
        ensure!(lines == 1, "{lines} lines with {what:?}, not 1");
    }
    hog.stop()?;
    other.stop()?;
    stage.teardown()
}

fn machine_sleeps_with_a_throttled_client() -> Verdict {
    let stage = Stage::set(&model(LAZY), LONG_PHASES)?;
    let hog = Load::start("--kernel-us 1000 --wait block --channels 1")?;
    let other = Load::start("--kernel-us 100 --wait block --channels 1")?;
    stage.wait_until_throttled(hog.pid())?;
    let write = |path: &str, value: &str| {
        fs::write(path, value).map_err(|error| format!("{path}: {error}"))
    };
    write("/sys/module/suspend/parameters/pm_test_delay", "3")?;
    write("/sys/power/pm_test", "freezer")?;
    let reads = || stage.stat().map(|stat| stat.register_reads);
    let before = reads()?;
    std::thread::sleep(Duration::from_secs(1));
    let asleep_from = reads()?;
    let slept = write("/sys/power/state", "mem");
    let after = reads()?;
    write("/sys/power/pm_test", "none")?;
    slept?;
    let (awake, asleep) = (asleep_from - before, after - asleep_from);
    println!("# {awake} register reads in a second of work, {asleep} in three of sleep");
    ensure!(
        awake > 0 && asleep < awake,
        "{asleep} register reads in three seconds of sleep, {awake} in one of work"
    );
    wait_until_measured(&stage, other.pid(), Duration::from_secs(3))?;
    stage.wait_until_throttled(hog.pid())?;
    hog.stop()?;
    other.stop()?;
    stage.teardown()
}

fn gpu_taken_from_its_driver_lets_all_clients_run() -> Verdict {
    const ADDRESS: &str = "0001:00:00.0";
    let stage = Stage::set(&model(LAZY), LONG_PHASES)?;
    let mut log = KernelLog::from_now()?;
    let hog = Load::start("--kernel-us 1000 --wait block --channels 1")?;
    let other = Load::start("--kernel-us 100 --wait block --channels 1")?;
    stage.wait_until_throttled(hog.pid())?;
    let taken = fs::write(format!("{DRIVER}/unbind"), ADDRESS);
    taken.map_err(|error| format!("unbind: {error}"))?;
    // A decision books the reads before the unbind.
    std::thread::sleep(Duration::from_millis(500));
    ensure!(stage.stat()?.away, "a GPU without its driver is not away");
    let reads = stage.stat()?.register_reads;
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(500) {
        let client = stage.client(hog.pid())?.ok_or("the hog is gone")?;
        ensure!(
            client.state != "throttled",
            "throttled on a GPU that has gone"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = stage.stat()?.register_reads;
    ensure!(
        read == reads,
        "{} reads of a GPU that the driver does not have",
        read - reads
    );
    fs::write(format!("{DRIVER}/bind"), ADDRESS).map_err(|error| format!("bind: {error}"))?;
    wait_until_measured(&stage, other.pid(), Duration::from_secs(3))?;
    ensure!(!stage.stat()?.away, "a GPU with its driver is away");
    stage.wait_until_throttled(hog.pid())?;
    for what in ["taken from its driver", "followed again"] {
        let lines = log.with(&["loga", what])?.len();
        ensure!(lines == 1, "{lines} lines with {what:?}, not 1");
    }
    hog.stop()?;
    other.stop()?;
    ensure!(modules::is_loaded(LOGA), "LoGA has gone");
    stage.teardown()
}

/// Waits a second for a condition on the figures of a GPU.
fn within_a_second(stage: &Stage, gpu: u32, what: &str, so: impl Fn(&Stat) -> bool) -> Verdict {
    let since = Instant::now();
    loop {
        let stat = stage.stat_of(gpu);
        if stat.as_ref().is_ok_and(&so) {
            println!("# gpu {gpu}: {what} after {:?}", since.elapsed());
            return Ok(());
        }
        ensure!(
            since.elapsed() < Duration::from_secs(1),
            "gpu {gpu}: not {what} within a second: {stat:?}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn gpu_that_its_driver_gets_later_is_followed() -> Verdict {
    for poller in ["per-gpu", "shared"] {
        let parameters = format!("policy=event enforce=1 poller={poller}");
        let stage = Stage::set(&model(&format!("gpus=3 unbound=3 {LAZY}")), &parameters)?;
        let old = Load::start("--kernel-us 1000 --wait block --channels 1")?;
        stage.wait_until_measured(old.pid())?;
        let mut log = KernelLog::from_now()?;
        for (gpu, address) in [(1, "0001:00:01.0"), (2, "0001:00:00.0")] {
            bind(address)?;
            let knobs = format!("/sys/class/misc/loga/gpu{gpu}/policy");
            // LoGA makes the files a little later than it shows the GPU.
            let followed = |stat: &Stat| stat.pci == address && Path::new(&knobs).exists();
            within_a_second(&stage, gpu, "followed", followed)?;
            let lines = log
                .with(&["loga", address, &format!("/dev/nvidia{gpu}")])?
                .len();
            ensure!(lines == 1, "{lines} lines about {address}");
            let policy = fs::read_to_string(&knobs).map_err(|error| format!("{knobs}: {error}"))?;
            ensure!(policy.trim() == "event", "{knobs}: {policy}");
            let new = format!("--gpu {gpu} --kernel-us 1000 --wait block --channels 1");
            let loads = [Load::start(&new)?, Load::start(&new)?];
            let at_work = |stat: &Stat| {
                let used = stat.clients.iter().filter(|client| client.measured_ns > 0);
                used.count() == 2
            };
            within_a_second(&stage, gpu, "measured", at_work)?;
            // A limit holds on all GPUs that there are.
            let on_all = uapi::SetShare {
                gpu: uapi::ALL_GPUS,
                ..for_process(loads[0].pid())
            };
            set(on_all, limit(20))?;
            let limited = |stat: &Stat| stat.clients.iter().any(|client| client.limit == 20);
            within_a_second(&stage, gpu, "limited", limited)?;
            Load::stop_all(loads.into())?;
        }
        // A card that comes back is no new one.
        fs::write(format!("{DRIVER}/unbind"), "0001:00:00.0").map_err(|error| error.to_string())?;
        within_a_second(&stage, 2, "away", |stat| stat.away)?;
        bind("0001:00:00.0")?;
        within_a_second(&stage, 2, "back", |stat| !stat.away)?;
        ensure!(stage.stat_of(3).is_err(), "there is a fourth GPU");
        old.stop()?;
        stage.teardown()?;
    }
    Ok(())
}

fn gpu_of_another_kind_that_its_driver_gets_later_is_counted() -> Verdict {
    let stage = Stage::set(&model(&format!("gpus=3 turing=1 unbound=5 {LAZY}")), "")?;
    let mut log = KernelLog::from_now()?;
    bind("0001:00:00.0")?;
    within_a_second(&stage, 0, "counted", |stat| stat.unfollowed == 1)?;
    let refusals = log.with(&["loga", "0001:00:00.0", "not followed"])?;
    ensure!(refusals.len() == 1, "{refusals:?}");
    says_why_a_turing_is_refused()?;
    bind("0001:00:02.0")?;
    within_a_second(&stage, 1, "followed", |stat| stat.pci == "0001:00:02.0")?;
    let unfollowed = stage.stat()?.unfollowed;
    ensure!(unfollowed == 1, "{unfollowed} GPUs are not followed");
    stage.teardown()
}

fn gpu_that_is_removed_and_found_anew_is_another_one() -> Verdict {
    const ADDRESS: &str = "0001:00:00.0";
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    let remove = format!("/sys/bus/pci/devices/{ADDRESS}/remove");
    for (path, value) in [(remove.as_str(), "1"), ("/sys/bus/pci/rescan", "1")] {
        fs::write(path, value).map_err(|error| format!("{path}: {error}"))?;
    }
    within_a_second(&stage, 0, "away", |stat| stat.away)?;
    // The kernel gives it other addresses than the model's registers have: LoGA does not know it.
    within_a_second(&stage, 0, "counted", |stat| stat.unfollowed == 1)?;
    let address = address_of("/dev/nvidia0")?;
    ensure!(address.is_none(), "/dev/nvidia0 is said to be {address:?}");
    let open = File::open("/dev/nvidia0").map_err(|error| error.to_string())?;
    let files = stage.stat()?.open_files;
    ensure!(files == 0, "{files} files of a GPU that is gone");
    drop(open);
    stage.teardown()
}
