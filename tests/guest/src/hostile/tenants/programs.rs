// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The programs of the tenants.

use super::super::ownership::{keep_busy, open, LIFE};
use super::super::{Act, USER};
use super::{BUSY, SOON};
use crate::calls::{become_user, Calls};
use crate::ktap::ensure;
use loga_cli::device::Device;
use nix::sched::{unshare, CloneFlags};
use std::io::BufRead;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io};
use throttle::plan::Engine;
use throttle::rm::Client;
use throttle::standin::open_channels;
use throttle::sys;

/// The programs of this file.
pub(in crate::hostile) const PROGRAMS: &[(&str, Act)] = &[
    ("member", member),
    ("subordinate", subordinate),
    ("contained", contained),
    ("wander", wander),
    ("listen", listen),
    ("snapshots", snapshots),
    ("rest", rest),
    ("disguised", disguised),
    ("waiting", waiting),
];

/// Puts a throttle in the place of this process.
pub(super) fn become_throttle() -> String {
    let error = Command::new("/bin/throttle")
        .args(BUSY.split(' '))
        .stdout(std::process::Stdio::null())
        .exec();
    format!("throttle: {error}")
}

pub(in crate::hostile) fn next_line() -> Result<String, String> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| error.to_string())?;
    Ok(line.trim().to_owned())
}

pub(super) fn move_to(cgroup: &Path) -> Result<(), String> {
    let path = cgroup.join("cgroup.procs");
    fs::write(&path, "0\n").map_err(|error| format!("{}: {error}", path.display()))
}

/// Waits as long as a program may live.
fn waiting(_: &[String]) -> Result<(), String> {
    std::thread::sleep(LIFE);
    Ok(())
}

/// A child keeps the page busy; the process that owns it runs a setuid program.
fn disguised(arguments: &[String]) -> Result<(), String> {
    let [program] = arguments else {
        return Err("disguised PROGRAM".to_string());
    };
    let (_client, mut channels) = open(1, 4)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    if sys::fork().map_err(|error| error.to_string())?.is_none() {
        keep_busy(channel, LIFE);
        sys::exit_now(0);
    }
    let error = Command::new(program).args(["hostile", "waiting"]).exec();
    Err(format!("{program}: {error}"))
}

/// Reads a cgroup, makes it if missing, moves to it, then keeps the GPU busy. An empty line: it
/// stays in its cgroup.
fn member(_: &[String]) -> Result<(), String> {
    let line = next_line()?;
    if !line.is_empty() {
        let path = Path::new(&line);
        if !path.exists() {
            fs::create_dir(path).map_err(|error| format!("{line}: {error}"))?;
        }
        move_to(path)?;
    }
    Err(become_throttle())
}

/// Makes a user namespace, waits for its map, and keeps the GPU busy as its user 5.
fn subordinate(_: &[String]) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|errno| format!("unshare: {errno}"))?;
    println!("ready");
    next_line()?;
    become_user(5)?;
    Err(become_throttle())
}

/// A container: prints how its first process sees each client, `pid uid cgroup`.
fn contained(_: &[String]) -> Result<(), String> {
    next_line()?;
    let all = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(all).map_err(|errno| format!("unshare: {errno}"))?;
    let map = format!("0 {USER} 1\n");
    fs::write("/proc/self/uid_map", map).map_err(|error| format!("uid_map: {error}"))?;
    if let Some(pid) = sys::fork().map_err(|error| error.to_string())? {
        let pid = nix::unistd::Pid::from_raw(pid);
        return match nix::sys::wait::waitpid(pid, None) {
            Ok(nix::sys::wait::WaitStatus::Exited(_, 0)) => Ok(()),
            other => Err(format!("its first process: {other:?}")),
        };
    }
    let told = work(1).and_then(|_kept| {
        let device = Device::open().map_err(|error| error.to_string())?;
        let snapshot = device.snapshot(0).map_err(|error| error.to_string())?;
        for client in &snapshot.clients {
            println!("{} {} {}", client.pid, client.uid, client.cgroup);
        }
        Ok(())
    });
    if let Err(reason) = &told {
        eprintln!("contained: {reason}");
    }
    sys::exit_now(told.is_err().into())
}

/// Opens a client with one channel, and runs some kernels.
pub(super) fn work(kernels: u32) -> Result<(Client, Vec<throttle::channel::Channel>), String> {
    let text = |error: throttle::error::Error| error.to_string();
    let mut client = Client::open(0).map_err(text)?;
    let mut channels = open_channels(&mut client, 1, 3, Engine::Compute).map_err(text)?;
    for _ in 0..kernels {
        run(&mut channels)?;
    }
    Ok((client, channels))
}

/// Runs one kernel of 200 us in the first channel.
pub(super) fn run(channels: &mut [throttle::channel::Channel]) -> Result<(), String> {
    let channel = channels.first_mut().ok_or("no channel")?;
    let sequence = channel.prepare(200_000, false);
    channel.submit();
    let since = Instant::now();
    while channel.completed().wrapping_sub(sequence) >= 1 << 31 {
        ensure!(since.elapsed() < SOON, "a kernel did not end");
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Makes a number of cgroups below one, and uses the GPU in each until LoGA has charged it.
fn wander(arguments: &[String]) -> Result<(), String> {
    let [path, count] = arguments else {
        return Err("want a cgroup and a number".to_owned());
    };
    let count: u32 = count.parse().map_err(|_| "not a number")?;
    next_line()?;
    let (_client, mut channels) = work(1)?;
    let device = Device::open().map_err(|error| error.to_string())?;
    let used_in = |cgroup: u64| -> Result<Option<u64>, String> {
        let snapshot = device.snapshot(0).map_err(|error| error.to_string())?;
        let clients = snapshot.clients.iter();
        let mut own = clients.filter(|client| client.cgroup == cgroup);
        Ok(own.next().map(|client| client.gpu_time_ns))
    };
    for number in 0..count {
        let path = Path::new(path).join(format!("leaf{number}"));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        move_to(&path)?;
        let cgroup = fs::metadata(&path)
            .map_err(|error| error.to_string())?
            .ino();
        let (since, mut first) = (Instant::now(), None);
        loop {
            run(&mut channels)?;
            let used = used_in(cgroup)?;
            first = first.or(used);
            if used > first {
                break;
            }
            ensure!(since.elapsed() < SOON, "no time was charged to {cgroup}");
        }
    }
    Ok(())
}

/// Subscribes with as many files as it can; prints how many, and keeps them.
fn listen(_: &[String]) -> Result<(), String> {
    let mut files = Vec::new();
    while let Ok(calls) = Calls::open() {
        if calls.subscribe(1).is_err() || files.len() == 200 {
            break;
        }
        files.push(calls);
    }
    println!("{}", files.len());
    next_line().map(drop)
}

/// Opens a client, and keeps it without using it.
fn rest(_: &[String]) -> Result<(), String> {
    let _kept = work(1)?;
    next_line().map(drop)
}

/// Takes snapshots without a pause.
fn snapshots(_: &[String]) -> Result<(), String> {
    let device = Device::open().map_err(|error| error.to_string())?;
    loop {
        device.snapshot(0).map_err(|error| error.to_string())?;
    }
}
