// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Loading, attaching, detaching and unloading, while hostile users interfere.

use super::{model, Act, Program};
use crate::caller::{client_works, Caller};
use crate::kernel_log::KernelLog;
use crate::ktap::{ensure, Test, Verdict};
use crate::modules;
use crate::modules::{LOGA, MODEL};
use crate::stage::{Stage, LAZY};
use nix::errno::Errno;
use nix::libc;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

crate::ktap::tests![
    opener_beside_failing_loads_finds_no_file,
    storm_of_attaching_beside_unloading,
    loaded_before_the_driver_it_waits,
    attaching_needs_no_node,
    call_that_stays_inside_stops_neither_detaching_nor_rmmod,
    hook_of_another_module_is_found,
];

/// Tests that a short run can afford: all but the storm.
pub(super) fn quick() -> Vec<Test> {
    let is_quick = |test: &&Test| !test.name.starts_with("storm");
    TESTS.iter().filter(is_quick).copied().collect()
}

/// See [`super::PROGRAMS`].
pub(super) const PROGRAMS: &[(&str, Act)] = &[("opener", opener), ("stays-inside", stays_inside)];

/// Loads of LoGA that fail, one after the other.
const FAILING_LOADS: u32 = 40;
/// Times that LoGA is loaded and removed in the storm.
const STORM: u32 = 6;
/// Another module that hooks the driver.
const HOOKER: &str = "loga_hooker";
const ATTACH: &str = "/sys/module/loga/parameters/attach";

/// Opens the control device as often as it can, keeps some files, and uses them.
fn opener(arguments: &[String]) -> Result<(), String> {
    const KEPT: usize = 64;
    let seconds = arguments.first().and_then(|word| word.parse().ok());
    let limit = Duration::from_secs(seconds.ok_or("opener SECONDS")?);
    let (since, mut files, mut opened) = (Instant::now(), Vec::new(), 0_u64);
    while since.elapsed() < limit {
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(loga::uapi::DEVICE_PATH);
        if let Ok(file) = file {
            opened += 1;
            files.push(file);
        }
        // Uses a file that may have outlived its module.
        for file in &mut files {
            let _ = file.read(&mut [0; 64]);
        }
        if files.len() > KEPT {
            files.clear();
            // An open file keeps the module: only here can it be unloaded.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    println!("{opened}");
    Ok(())
}

/// Makes a call with an argument on a page that never comes: it stays inside the driver.
fn stays_inside(_: &[String]) -> Result<(), String> {
    let page = userfaultfd_page()?;
    let control =
        throttle::rm::open_node(throttle::rm::CTL_PATH).map_err(|error| error.to_string())?;
    println!("calling");
    // RM_FREE: the driver reads the argument first, and waits for the page.
    let request = (3 << 30) | (16 << 16) | (u64::from(b'F') << 8) | 0x29;
    // SAFETY: The address is that of a page of this process.
    let answer = unsafe { libc::ioctl(control.as_raw_fd(), request, page) };
    Err(format!("the call came back with {answer}"))
}

/// A page of this process that never comes, because no thread serves its fault.
fn userfaultfd_page() -> Result<usize, String> {
    const UFFDIO_API: u64 = 0xc018_aa3f;
    const UFFDIO_REGISTER: u64 = 0xc020_aa00;
    let failed = |what: &str| format!("{what}: {}", Errno::last());
    // SAFETY: Makes a file descriptor, which stays open as long as the process.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
    let fd = i32::try_from(fd).map_err(|error| error.to_string())?;
    if fd < 0 {
        return Err(failed("userfaultfd"));
    }
    let mut api = [0xaa_u64, 0, 0];
    // SAFETY: The structure has the size that the number names.
    if unsafe { libc::ioctl(fd, UFFDIO_API, api.as_mut_ptr()) } != 0 {
        return Err(failed("UFFDIO_API"));
    }
    // SAFETY: A new mapping, which nothing else uses.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return Err(failed("mmap"));
    }
    let page = page as usize;
    let mut register = [page as u64, 4096, 1, 0];
    // SAFETY: As above.
    if unsafe { libc::ioctl(fd, UFFDIO_REGISTER, register.as_mut_ptr()) } != 0 {
        return Err(failed("UFFDIO_REGISTER"));
    }
    Ok(page)
}

fn clear() -> Verdict {
    modules::remove_patiently(LOGA)?;
    modules::remove_patiently(MODEL)
}

fn attached() -> bool {
    fs::read_to_string(ATTACH).is_ok_and(|text| text.trim() == "1")
}

fn wait_until_attached(limit: Duration) -> Verdict {
    let since = Instant::now();
    while !attached() {
        ensure!(since.elapsed() < limit, "not attached after {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn opener_beside_failing_loads_finds_no_file() -> Verdict {
    let stage = Stage::without_loga(&model(LAZY))?;
    let openers = [Program::start("opener 6")?, Program::start("opener 6")?];
    for _ in 0..FAILING_LOADS {
        let refused = modules::load(LOGA, "policy=typo");
        ensure!(refused == Err(Errno::EINVAL), "{refused:?}, not EINVAL");
        ensure!(
            !Path::new(loga::uapi::DEVICE_PATH).exists(),
            "the control device was there"
        );
    }
    for opener in openers {
        let opened = opener.finish()?;
        ensure!(
            opened.trim() == "0",
            "an opener got {} files of a module that was not loaded",
            opened.trim()
        );
    }
    stage.teardown()
}

fn storm_of_attaching_beside_unloading() -> Verdict {
    let stage = Stage::without_loga(&model(LAZY))?;
    let opener = Program::start("opener 4")?;
    let ends = AtomicBool::new(false);
    let writes = |value: &str| {
        while !ends.load(Ordering::Relaxed) {
            let _ = fs::write(ATTACH, value);
            // Unloading is refused while a caller is inside, so it is tried again.
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let cycles = std::thread::scope(|scope| {
        scope.spawn(|| writes("1"));
        scope.spawn(|| writes("0"));
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let _ = fs::read_to_string(ATTACH);
            }
        });
        let cycles = (0..STORM).try_for_each(|_| {
            modules::load(LOGA, "").map_err(|errno| format!("insmod: {errno}"))?;
            std::thread::sleep(Duration::from_millis(30));
            modules::remove_patiently(LOGA)
        });
        ends.store(true, Ordering::Relaxed);
        cycles
    });
    cycles?;
    drop(opener);
    client_works(1)?;
    stage.teardown()
}

fn loaded_before_the_driver_it_waits() -> Verdict {
    clear()?;
    let mut log = KernelLog::from_now()?;
    let loaded = modules::load(LOGA, "attach=1");
    ensure!(loaded.is_ok(), "insmod without a driver: {loaded:?}");
    let lines = log.with(&["loga", "waits"])?;
    ensure!(lines.len() == 1, "{} lines say that it waits", lines.len());
    ensure!(!attached(), "attached to nothing");
    let asked = modules::set(LOGA, "attach", "1");
    ensure!(asked == Err(Errno::ENODEV), "{asked:?}, not ENODEV");
    modules::load(MODEL, &model(LAZY)).map_err(|errno| format!("insmod: {errno}"))?;
    wait_until_attached(Duration::from_secs(3))?;
    client_works(1)?;
    clear()
}

fn attaching_needs_no_node() -> Verdict {
    const AWAY: &str = "/dev/nvidiactl.away";
    let stage = Stage::without_loga(&model(LAZY))?;
    fs::rename(throttle::rm::CTL_PATH, AWAY).map_err(|error| error.to_string())?;
    // A node of another device does not help either.
    fs::write(throttle::rm::CTL_PATH, "").map_err(|error| error.to_string())?;
    let loaded = stage.add_loga("");
    fs::rename(AWAY, throttle::rm::CTL_PATH).map_err(|error| error.to_string())?;
    loaded?;
    ensure!(attached(), "not attached without a node");
    let mut caller = Caller::with_channels(1)?;
    caller.check_work()?;
    stage.wait_for_client(caller.pid(), Duration::from_secs(3), "a client", |_| true)?;
    drop(caller);
    stage.teardown()
}

/// A detach that fails leaves a time in which mappings come unseen: no user may make it fail. And
/// whoever unloads the module is told at once that it is in use: in the module's exit no signal
/// would end the wait.
fn call_that_stays_inside_stops_neither_detaching_nor_rmmod() -> Verdict {
    const USERFAULTFD: &str = "/proc/sys/vm/unprivileged_userfaultfd";
    let stage = Stage::set(&model(LAZY), "")?;
    fs::write(USERFAULTFD, "1").map_err(|error| format!("{USERFAULTFD}: {error}"))?;
    let mut inside = Program::start("stays-inside")?;
    inside.line(Duration::from_secs(20))?;
    std::thread::sleep(Duration::from_millis(300));
    let in_use = || {
        let since = Instant::now();
        let removed = modules::remove(LOGA);
        println!(
            "# rmmod beside the call: {removed:?} after {:?}",
            since.elapsed()
        );
        ensure!(removed == Err(Errno::EWOULDBLOCK), "rmmod: {removed:?}");
        Ok(())
    };
    in_use()?;
    let since = Instant::now();
    let detached = modules::set(LOGA, "attach", "0");
    println!(
        "# detach beside the call: {detached:?} after {:?}",
        since.elapsed()
    );
    ensure!(detached.is_ok(), "{detached:?}");
    ensure!(!attached(), "attached after the detach");
    in_use()?;
    let again = modules::set(LOGA, "attach", "1");
    ensure!(again.is_ok(), "attach beside the call: {again:?}");
    let mut caller = Caller::with_channels(1)?;
    caller.check_work()?;
    stage.wait_for_client(caller.pid(), Duration::from_secs(3), "a client", |_| true)?;
    // The call returns to a module that was detached and attached meanwhile.
    drop(inside);
    caller.check_work()?;
    let free = stage.stat()?.unmanaged_mappings;
    ensure!(free == 0, "{free} mappings run free");
    drop(caller);
    let detached = modules::set(LOGA, "attach", "0");
    ensure!(detached.is_ok(), "detach afterwards: {detached:?}");
    stage.teardown()
}

fn hook_of_another_module_is_found() -> Verdict {
    let stage = Stage::without_loga(&model(LAZY))?;
    let load = || modules::load(HOOKER, "").map_err(|errno| format!("insmod {HOOKER}: {errno}"));
    load()?;
    let mut log = KernelLog::from_now()?;
    // LoGA loads, and does not attach.
    let _ = modules::load(LOGA, "");
    let found = attached();
    let lines = log.with(&["loga", "hooked already"])?;
    modules::remove_patiently(HOOKER)?;
    ensure!(
        !found,
        "attached although unlocked_ioctl was another module's"
    );
    ensure!(lines.len() == 1, "{} lines say so", lines.len());
    let asked = modules::set(LOGA, "attach", "1");
    ensure!(asked.is_ok(), "attach when the other has gone: {asked:?}");
    load()?;
    let refused = modules::set(LOGA, "attach", "0");
    let worked = client_works(1);
    // Before any check: unloading LoGA waits for the other module.
    modules::remove_patiently(HOOKER)?;
    worked?;
    ensure!(
        refused == Err(Errno::EBUSY),
        "detaching from under another module: {refused:?}, not EBUSY"
    );
    client_works(1)?;
    let detached = modules::set(LOGA, "attach", "0");
    ensure!(
        detached.is_ok(),
        "detach when the other has gone: {detached:?}"
    );
    stage.teardown()
}
