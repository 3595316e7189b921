// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Every allocation of every call fails once: /proc/PID/fail-nth.
//!
//! The kernel lets the n-th allocation of a task (kmalloc, a page) fail. Each call is repeated with
//! n from 1 on, until it ends without reaching the n-th. Whatever the call answers, the stage must
//! be as usable as before, and both modules must unload. What survives is in LoGA's hands: a page
//! that is mapped has an owner, whose figures show its channels, and nothing runs free. Lost memory
//! shows at the end of the run (`leaks`).
//!
//! Source: Documentation/fault-injection/fault-injection.rst, "fail-nth".

use crate::caller::{Caller, SOON};
use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::modules;
use crate::modules::LOGA;
use crate::stage::{Stage, LAZY};
use crate::truth::Truth;
use loga::uapi;
use loga_cli::device::Device;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::fs;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use throttle::channel::Channel;
use throttle::plan::Engine;
use throttle::rm::Client;
use throttle::standin::open_channels;
use throttle::sys::Visibility;
use throttle::{rm, sys};

crate::ktap::tests![
    failing_allocations_in_open,
    failing_allocations_in_first_channels_and_mmap,
    failing_allocations_in_fork,
    failing_allocations_in_fdinfo,
    failing_allocations_in_calls_that_read,
    failing_allocations_in_calls_that_change,
    failing_allocations_in_events,
    failing_allocations_in_attach_and_detach,
];

/// File in which a task sets which of its allocations fails.
const FAIL_NTH: &str = "/proc/thread-self/fail-nth";
/// TIMEOUT: more allocations than any call here makes.
const PLACES_MAX: u32 = 2000;
/// Settings that let every kind of allocation fail, without a backtrace for each.
const SETTINGS: [(&str, &str); 6] = [
    ("failslab/ignore-gfp-wait", "N"),
    ("failslab/verbose", "0"),
    ("fail_page_alloc/ignore-gfp-wait", "N"),
    ("fail_page_alloc/ignore-gfp-highmem", "N"),
    ("fail_page_alloc/min-order", "0"),
    ("fail_page_alloc/verbose", "0"),
];

/// Whether the kernel can let allocations fail.
pub(crate) fn can_inject() -> bool {
    Path::new(FAIL_NTH).exists()
}

/// The file that sets which allocation of this thread fails.
struct Injector(File);

impl Injector {
    fn new() -> Result<Self, String> {
        for (name, value) in SETTINGS {
            let path = format!("/sys/kernel/debug/{name}");
            fs::write(&path, value).map_err(|error| format!("{path}={value}: {error}"))?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(FAIL_NTH)
            .map_err(|error| format!("{FAIL_NTH}: {error}"))?;
        Ok(Injector(file))
    }

    fn arm(&self, place: u32) -> Result<(), String> {
        self.0
            .write_all_at(place.to_string().as_bytes(), 0)
            .map_err(|error| format!("{FAIL_NTH}={place}: {error}"))
    }

    /// Lets no further allocation fail; whether the chosen one failed.
    fn disarm(&self) -> Result<bool, String> {
        let mut text = [0u8; 16];
        let read = self
            .0
            .read_at(&mut text, 0)
            .map_err(|error| format!("{FAIL_NTH}: {error}"))?;
        self.arm(0)?;
        Ok(text[..read].trim_ascii() == b"0")
    }

    /// Makes a call with each of its allocations failing once, and undoes it where it worked.
    fn each<T>(
        &self,
        what: &str,
        mut call: impl FnMut() -> Result<T, String>,
        mut undo: impl FnMut(T) -> Verdict,
    ) -> Verdict {
        let (mut refused, mut survived) = (0, 0);
        for place in 1..=PLACES_MAX {
            self.arm(place)?;
            let answer = call();
            let failed = self.disarm()?;
            let answered = answer.is_ok();
            match answer {
                Ok(made) => {
                    undo(made).map_err(|error| format!("{what}, place {place}: {error}"))?
                }
                Err(error) if !failed => return Err(format!("{what}: {error}")),
                Err(_) => {}
            }
            if !failed {
                ensure!(place > 1, "{what}: no place that can fail");
                println!(
                    "# {what}: {} places, {refused} refused, {survived} not",
                    place - 1
                );
                return Ok(());
            }
            if answered {
                survived += 1;
            } else {
                refused += 1;
            }
        }
        Err(format!("{what}: more than {PLACES_MAX} places"))
    }

    /// As [`Injector::each`], of a call that may allocate nothing.
    fn each_if_any<T>(
        &self,
        what: &str,
        call: impl FnMut() -> Result<T, String>,
        undo: impl FnMut(T) -> Verdict,
    ) -> Verdict {
        match self.each(what, call, undo) {
            Err(error) if error.contains("no place") => Ok(()),
            ended => ended,
        }
    }
}

/// A client works, is known and is gone afterwards.
fn check(stage: &Stage) -> Verdict {
    let mut caller = Caller::with_channels(2)?;
    caller.check_work()?;
    let pid = caller.pid();
    drop(caller);
    stage.wait_until_gone(pid)?;
    let mut left = stage.stat()?.clients;
    // LoGA keeps the figures of this process until it exits.
    left.retain(|client| u32::try_from(client.pid) != Ok(std::process::id()));
    ensure!(left.is_empty(), "clients left: {left:?}");
    Ok(())
}

/// Nothing is passed through unmanaged, and with `channels` this process is charged for them.
fn check_managed(stage: &Stage, channels: u32) -> Verdict {
    let stat = stage.stat()?;
    ensure!(
        (stat.unmanaged_mappings, stat.unmanaged_files) == (0, 0),
        "{} mappings and {} files run free",
        stat.unmanaged_mappings,
        stat.unmanaged_files
    );
    let own = stat
        .clients
        .iter()
        .find(|client| u32::try_from(client.pid) == Ok(std::process::id()));
    let owned = own.map_or(0, |own| own.channels);
    ensure!(
        owned >= channels,
        "{owned} of {channels} channels are this process's"
    );
    Ok(())
}

/// Runs a kernel: by LoGA's figures, this process has run as long as by the model's.
fn check_charged(stage: &Stage, channel: &mut Channel) -> Verdict {
    let (from, before) = (Truth::read()?, measured(stage)?);
    let sequence = channel.prepare(20_000_000, false);
    channel.submit();
    while channel.completed() != sequence {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The period in which it ran is booked.
    let since = Instant::now();
    while measured(stage)? == before {
        ensure!(
            since.elapsed() < SOON,
            "20 ms of the engine are charged to nobody"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let ran = Truth::read()?.now_ns - from.now_ns;
    println!("# charged within {} ms", ran / 1_000_000);
    Ok(())
}

/// What LoGA has charged this process, in ns.
fn measured(stage: &Stage) -> Result<u64, String> {
    let own = stage.client(std::process::id())?;
    Ok(own.map_or(0, |own| own.measured_ns))
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn failing_allocations_in_open() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let injector = Injector::new()?;
    for path in [rm::CTL_PATH, "/dev/nvidia0", uapi::DEVICE_PATH] {
        let open = || File::open(path).map_err(text);
        injector.each(&format!("open {path}"), open, |_| Ok(()))?;
    }
    // What survived each failure is known to LoGA: it is found through a mapping.
    let mut client = Client::open(0).map_err(text)?;
    let mut channels = open_channels(&mut client, 1, 3, Engine::Compute).map_err(text)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    channel.unmap_userd();
    let path = rm::gpu_path(client.gpu());
    let ready = || {
        client
            .prepare_map(channel.handle(), loga::rm::PAGE_SIZE, &path)
            .map_err(text)
    };
    injector.each("open and prepare", ready, |ready| {
        let mapping = ready.map(Visibility::Shared).map_err(text)?;
        let managed = check_managed(&stage, 1);
        drop(mapping);
        managed
    })?;
    drop((channels, client));
    check(&stage)?;
    stage.teardown()
}

fn failing_allocations_in_first_channels_and_mmap() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let injector = Injector::new()?;
    let open = || {
        let mut client = Client::open(0).map_err(text)?;
        let channels = open_channels(&mut client, 2, 3, Engine::Compute).map_err(text)?;
        Ok((channels, client))
    };
    // Channels go before their client.
    injector.each("two channels", open, |(channels, client)| {
        let managed = check_managed(&stage, 2);
        drop(channels);
        drop(client);
        managed
    })?;
    let (mut channels, client) = open()?;
    let channel = channels.first_mut().ok_or("no channel")?;
    injector.each(
        "mmap",
        || {
            channel.unmap_userd();
            channel.map_userd(&client).map_err(text)
        },
        |()| check_managed(&stage, 2),
    )?;
    check_charged(&stage, channel)?;
    drop(channels);
    drop(client);
    check(&stage)?;
    stage.teardown()
}

fn failing_allocations_in_fork() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let injector = Injector::new()?;
    let mut client = Client::open(0).map_err(text)?;
    let channels = open_channels(&mut client, 1, 3, Engine::Compute).map_err(text)?;
    let fork = || match sys::fork().map_err(text)? {
        Some(pid) => Ok(Pid::from_raw(pid)),
        None => sys::exit_now(0),
    };
    injector.each("fork", fork, |pid| {
        waitpid(pid, None).map(drop).map_err(text)?;
        check_managed(&stage, 1)
    })?;
    drop(channels);
    drop(client);
    check(&stage)?;
    stage.teardown()
}

fn failing_allocations_in_fdinfo() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let injector = Injector::new()?;
    let client = Client::open(0).map_err(text)?;
    let path = format!("/proc/self/fdinfo/{}", client.gpu_file().as_raw_fd());
    injector.each("fdinfo", || fs::read(&path).map_err(text), |_| Ok(()))?;
    drop(client);
    check(&stage)?;
    stage.teardown()
}

fn failing_allocations_in_calls_that_read() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let injector = Injector::new()?;
    let caller = Caller::with_channels(2)?;
    let device = Device::open().map_err(text)?;
    let calls = Calls::open()?;
    injector.each("snapshot", || device.snapshot(0).map_err(text), |_| Ok(()))?;
    let totals = || calls.totals(uapi::SUBJECT_USER, 0).map_err(text);
    injector.each("totals", totals, |_| Ok(()))?;
    injector.each("list", || calls.shares().map_err(text), |_| Ok(()))?;
    drop((caller, device, calls));
    check(&stage)?;
    stage.teardown()
}

fn failing_allocations_in_calls_that_change() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let injector = Injector::new()?;
    let caller = Caller::with_channels(1)?;
    let calls = Calls::open()?;
    for policy in ["event", "maxmin"] {
        let turn = || crate::sysfs::write("policy", policy);
        injector.each(&format!("policy={policy}"), turn, |()| Ok(()))?;
    }
    let set = uapi::SetShare {
        gpu: uapi::ALL_GPUS,
        action: uapi::ACTION_SET,
        subject: uapi::SUBJECT_PROCESS,
        mask: uapi::SHARE_WEIGHT,
        id: caller.pid().into(),
        weight: 200,
        ..Default::default()
    };
    injector.each("set", || calls.set_share(&set).0.map_err(text), |()| Ok(()))?;
    crate::sysfs::write("dispatch", "edf")?;
    let set = uapi::SetSpec {
        gpu: uapi::ALL_GPUS,
        action: uapi::ACTION_SET,
        spec: uapi::Spec {
            subject: uapi::SUBJECT_PROCESS,
            id: caller.pid().into(),
            prio: 30,
            ..Default::default()
        },
        ..Default::default()
    };
    let spec = || calls.set_spec(&set).0.map_err(text);
    injector.each("set a spec", spec, |()| Ok(()))?;
    injector.each("list specs", || calls.specs().map_err(text), |_| Ok(()))?;
    drop((caller, calls));
    check(&stage)?;
    stage.teardown()
}

fn failing_allocations_in_events() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let injector = Injector::new()?;
    let subscribe = || {
        let calls = Calls::open()?;
        calls
            .subscribe((1 << uapi::EVENT_KINDS) - 1)
            .map_err(text)?;
        Ok(calls)
    };
    injector.each("subscribe", subscribe, |_| Ok(()))?;
    let calls = subscribe()?;
    drop(Caller::with_channels(1)?);
    // Reading copies the queued events.
    injector.each_if_any("read events", || calls.events(), |_| Ok(()))?;
    drop(calls);
    check(&stage)?;
    stage.teardown()
}

fn attach(value: &str) -> Result<(), String> {
    modules::set(LOGA, "attach", value).map_err(|errno| format!("attach={value}: {errno}"))
}

fn failing_allocations_in_attach_and_detach() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let injector = Injector::new()?;
    attach("0")?;
    injector.each("attach", || attach("1"), |()| attach("0"))?;
    attach("1")?;
    injector.each_if_any("detach", || attach("0"), |()| attach("1"))?;
    check(&stage)?;
    stage.teardown()
}
