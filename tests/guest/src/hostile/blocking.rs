// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Throttled programs that try to block others too: by kernel code that touches a submission
//! page under a lock, by masses of mappings, by masses of processes, by a lock that a starved process
//! holds; and one that stores while it maps.

use super::bystander::{Bystander, Longest, PLACE};
use super::ownership::{baseline, keep_busy, measure, open, prepare_through, ready, LIFE, WINDOW};
use super::tenants::next_line;
use super::{model, Program};
use crate::calls::Calls;
use crate::dispatch::counters;
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::modules;
use crate::sharing::{for_process, limit, set};
use crate::stage::{Stage, LAZY};
use crate::sysfs;
use loga::rm as abi;
use loga::rm::nr;
use loga::uapi;
use nix::errno::Errno;
use nix::libc;
use std::fs;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::{Duration, Instant};
use throttle::rm::ReadyToMap;
use throttle::sys::Visibility;
use throttle::{rm, sys};

crate::ktap::tests![
    kernel_faults_on_a_throttled_page_fail_and_block_no_directory: timed,
    many_mappings_are_revoked_at_once_and_more_are_refused: timed,
    store_beside_a_mapping_is_no_way_past_the_gate: timed,
    full_quota_of_one_user_leaves_room_for_others: timed,
    mappings_in_many_forked_children_are_revoked_at_once: timed,
    preempted_threads_of_the_lowest_priority_stop_nobody: timed,
    lock_that_a_client_holds_keeps_its_own_page_open_only: timed,
];

/// The tests of `make test`.
pub(super) const QUICK: &[crate::ktap::Test] = &[TESTS[0], TESTS[1], TESTS[4], TESTS[5], TESTS[6]];

/// The programs of this file.
pub(super) const PROGRAMS: &[(&str, super::Act)] = &[
    ("directory", directory),
    ("maps", maps),
    ("remap", |_| remap()),
    ("forks", |_| forks()),
    ("lazy", |_| lazy()),
    ("crowd", crowd),
];

/// The module that holds the lock.
const HOLDER: &str = "loga_holder";
/// How long the other processes are watched.
const WATCH: Duration = Duration::from_millis(2500);
/// Offset in a page of the last slot, of a channel that the programs do not have.
const LAST_SLOT: usize = 7 * 512;

/// A folder with some files, readable by all users.
fn make_place() -> Result<(), String> {
    fs::create_dir_all(PLACE).map_err(|error| error.to_string())?;
    for number in 0..40 {
        let path = Path::new(PLACE).join(format!("file-{number}"));
        fs::write(&path, "").map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn kernel_faults_on_a_throttled_page_fail_and_block_no_directory() -> Verdict {
    make_place()?;
    for target in ["heap", "page"] {
        let stage = Stage::set(&model(LAZY), "enforce=1")?;
        let program = Program::start(&format!("directory {target}"))?;
        std::thread::sleep(Duration::from_millis(500));
        set(for_process(program.pid()), limit(1))?;
        stage.wait_until_throttled(program.pid())?;
        let longest = Bystander::open()?.watch(WATCH)?;
        println!("# directory entries to the {target}: {longest}");
        longest.check()?;
        let text = program.finish()?;
        println!("# {}", text.trim());
        if target == "page" {
            ensure!(text.contains("EFAULT"), "no call failed: {text}");
        }
        stage.teardown()?;
    }
    Ok(())
}

/// A hog that reads a directory into its submission page, or into other memory, in a loop. Prints
/// how the calls ended.
fn directory(words: &[String]) -> Result<(), String> {
    const ENTRIES: usize = 256;
    let (client, mut channels) = open(1, 4)?;
    let ready = ready(&client, &channels[0])?;
    let page = map_at(&ready, std::ptr::null_mut())?;
    let mut heap = vec![0u8; ENTRIES];
    let target = match words.first().map(String::as_str) {
        Some("page") => page.wrapping_add(LAST_SLOT),
        _ => heap.as_mut_ptr(),
    } as usize;
    let reader = std::thread::spawn(move || {
        let (mut fine, mut failed) = (0u32, 0u32);
        let mut longest = Duration::ZERO;
        let since = Instant::now();
        while since.elapsed() < WATCH + Duration::from_secs(3) {
            let Ok(folder) = File::open(PLACE) else { break };
            let begin = Instant::now();
            // SAFETY: the kernel checks the address; it writes to a slot that no channel of this
            // program has, or to memory that lives as long as this thread.
            let rc =
                unsafe { libc::syscall(libc::SYS_getdents64, folder.as_raw_fd(), target, ENTRIES) };
            longest = longest.max(begin.elapsed());
            match Errno::result(rc) {
                Ok(_) => fine += 1,
                Err(_) => failed += 1,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        println!(
            "{fine} calls succeeded, {failed} ended with EFAULT, the longest took {longest:?}"
        );
        // The hog may be inactive.
        sys::exit_now(0);
    });
    keep_busy(&mut channels[0], LIFE);
    reader
        .join()
        .map_err(|_| "the reader panicked".to_string())?;
    drop(heap);
    Ok(())
}

/// Maps a prepared page, at an address or anywhere.
fn map_at(ready: &ReadyToMap, address: *mut u8) -> Result<*mut u8, String> {
    let flags = match address.is_null() {
        true => libc::MAP_SHARED,
        false => libc::MAP_SHARED | libc::MAP_FIXED,
    };
    // SAFETY: a mapping at a new address, or in place of one that this program made before.
    let at = unsafe {
        libc::mmap(
            address.cast(),
            usize::try_from(ready.length).unwrap_or(0),
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            ready.file.as_raw_fd(),
            i64::try_from(ready.offset).unwrap_or(0),
        )
    };
    match at == libc::MAP_FAILED {
        true => Err(Errno::last().to_string()),
        false => Ok(at.cast()),
    }
}

fn many_mappings_are_revoked_at_once_and_more_are_refused() -> Verdict {
    make_place()?;
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    let program = Program::start("maps 500")?;
    std::thread::sleep(Duration::from_millis(1500));
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    stage.wait_until_throttled(program.pid())?;
    let longest = Bystander::open()?.watch(WATCH)?;
    let worst = revocations()?.into_iter().max().unwrap_or(0);
    println!("# 500 mappings: revoked within {worst} ns; {longest}");
    ensure!(worst > 0, "nothing was revoked");
    ensure!(worst <= 1_000_000, "revoking took {worst} ns");
    longest.check()?;
    drop(program);
    let refused = Program::start("maps 1000")?.finish()?;
    ensure!(
        refused.contains("EMFILE"),
        "1000 mappings: {}",
        refused.trim()
    );
    drop(other);
    stage.teardown()
}

/// Time of the last revocations, in ns.
fn revocations() -> Result<Vec<u64>, String> {
    costs("revoke_ns")
}

/// Times that the last calls of one kind took, in ns.
pub(super) fn costs(what: &str) -> Result<Vec<u64>, String> {
    const COSTS: &str = "/sys/kernel/debug/loga/costs";
    let text = fs::read_to_string(COSTS).map_err(|error| format!("{COSTS}: {error}"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("gpu0 ")?.strip_prefix(what));
    let words = line.unwrap_or_default().split_whitespace();
    Ok(words.filter_map(|word| word.parse().ok()).collect())
}

/// A hog with many mappings of its page through one file.
fn maps(words: &[String]) -> Result<(), String> {
    let count: u32 = words
        .first()
        .and_then(|word| word.parse().ok())
        .unwrap_or(1);
    let (client, mut channels) = open(1, 4)?;
    let ready = ready(&client, &channels[0])?;
    for number in 0..count {
        if let Err(reason) = map_at(&ready, std::ptr::null_mut()) {
            println!("mapping {number}: {reason}");
            return Ok(());
        }
    }
    keep_busy(&mut channels[0], LIFE);
    Ok(())
}

fn mappings_in_many_forked_children_are_revoked_at_once() -> Verdict {
    make_place()?;
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    let mut program = Program::start("forks")?;
    let text = program.line(Duration::from_secs(60))?;
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    stage.wait_until_throttled(program.pid())?;
    let longest = Bystander::open()?.watch(WATCH)?;
    let worst = revocations()?.into_iter().max().unwrap_or(0);
    println!("# {}: revoked within {worst} ns; {longest}", text.trim());
    ensure!(worst > 0, "nothing was revoked");
    ensure!(worst <= 1_000_000, "revoking took {worst} ns");
    longest.check()?;
    drop((program, other));
    stage.teardown()
}

/// A hog with many mappings of its page, which forks many children that stay.
fn forks() -> Result<(), String> {
    const MAPPINGS: u32 = 120;
    const CHILDREN: u32 = 100;
    let (client, mut channels) = open(1, 4)?;
    let ready = ready(&client, &channels[0])?;
    for _ in 0..MAPPINGS {
        map_at(&ready, std::ptr::null_mut())?;
    }
    for _ in 0..CHILDREN {
        fork_after(|| true)?;
    }
    println!("{MAPPINGS} mappings, {CHILDREN} children");
    keep_busy(&mut channels[0], LIFE);
    Ok(())
}

fn preempted_threads_of_the_lowest_priority_stop_nobody() -> Verdict {
    make_place()?;
    let longest = beside_preempted(Some("policy=event enforce=1"))?;
    if longest.is_short() {
        return Ok(());
    }
    // The driver may hold a lock of its own where it is preempted: branch 340 maps with one.
    longest.check_unless_without(&beside_preempted(None)?)
}

/// The bystander's calls beside preempted threads of the lowest priority, without LoGA if it has no
/// parameters.
fn beside_preempted(loga: Option<&str>) -> Result<Longest, String> {
    let stage = Stage::without_loga(&model(LAZY))?;
    if let Some(parameters) = loga {
        stage.add_loga(parameters)?;
    }
    let program = Program::start("lazy")?;
    let hog = Load::start("--kernel-us 1000 --depth 4 --wait block --channels 1")?;
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    if loga.is_none() {
        std::thread::sleep(Duration::from_millis(500));
        let longest = Bystander::open()?.watch(WATCH)?;
        println!("# without LoGA: {longest}");
        drop((program, hog, other));
        stage.teardown()?;
        return Ok(longest);
    }
    stage.wait_until_throttled(hog.pid())?;
    let before = stage.stat()?;
    let longest = Bystander::open()?.watch(WATCH)?;
    let after = stage.stat()?;
    println!(
        "# {longest}; {} decisions, late {}",
        after.polls - before.polls,
        after.fallbacks - before.fallbacks
    );
    stage.check_no_fallback()?;
    drop((program, hog, other));
    stage.teardown()?;
    Ok(longest)
}

/// Processes of the lowest priority map and unmap their page and open the GPU, over and over, while
/// others of ordinary priority keep all processors busy: they are preempted wherever they are.
fn lazy() -> Result<(), String> {
    let (client, channels) = open(1, 4)?;
    let ready = ready(&client, &channels[0])?;
    let address = map_at(&ready, std::ptr::null_mut())?;
    for _ in 0..4 {
        if sys::fork().map_err(|error| error.to_string())?.is_none() {
            loop {
                let since = Instant::now();
                while since.elapsed() < Duration::from_micros(1500) {
                    std::hint::spin_loop();
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
    take_lowest_priority()?;
    for _ in 0..3 {
        if sys::fork().map_err(|error| error.to_string())?.is_none() {
            break;
        }
    }
    let since = Instant::now();
    while since.elapsed() < LIFE {
        map_at(&ready, address)?;
        drop(rm::open_node(&rm::gpu_path(0)).map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// The caller runs from now on if no other thread wants its processor.
fn take_lowest_priority() -> Result<(), String> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: changes the calling process; the parameter lives until the end of the call.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
    ensure!(set == 0, "SCHED_IDLE: {}", Errno::last());
    Ok(())
}

/// Decisions, and the grants of others, go on while a thread of a hog that does not run holds the lock
/// that removing the entries of its page needs. That page is named, and is closed when the lock is free.
fn lock_that_a_client_holds_keeps_its_own_page_open_only() -> Verdict {
    for dispatch in ["none", "prio"] {
        let stage = Stage::set(
            &model(LAZY),
            &format!("policy=event enforce=1 dispatch={dispatch}"),
        )?;
        let calls = Calls::open()?;
        calls
            .subscribe(1 << uapi::EVENT_STUCK | 1 << uapi::EVENT_FALLBACK)
            .map_err(|errno| errno.to_string())?;
        let hog = Load::start("--kernel-us 2000 --depth 4 --wait block --channels 1")?;
        let other = Load::start("--kernel-us 500 --depth 4 --wait block --channels 1")?;
        stage.wait_until_all_measured([&hog, &other])?;
        modules::load(HOLDER, &format!("pid={}", hog.pid()))
            .map_err(|errno| format!("insmod {HOLDER}: {errno}"))?;
        let seconds = beside_held(&stage, dispatch == "prio");
        modules::remove_patiently(HOLDER)?;
        seconds?;
        let events = calls.events()?;
        let stuck = |event: &&uapi::Event| event.kind == uapi::EVENT_STUCK;
        let named = events.iter().filter(stuck);
        let named: Vec<_> = named.map(|event| u32::try_from(event.pid)).collect();
        ensure!(
            named == [Ok(hog.pid())],
            "{dispatch}: {named:?} were named, not the hog once"
        );
        let is_fallback = |event: &uapi::Event| event.kind == uapi::EVENT_FALLBACK;
        ensure!(!events.iter().any(is_fallback), "{dispatch}: {events:?}");
        ensure!(
            sysfs::read("dispatch")? == dispatch,
            "the dispatcher was taken away"
        );
        stage.wait_until_throttled(hog.pid())?;
        drop((hog, other, calls));
        stage.teardown()?;
    }
    Ok(())
}

/// Whether each of some seconds has decisions, and turns if there are any.
fn beside_held(stage: &Stage, turns: bool) -> Verdict {
    for second in 0..4 {
        let grants = || Ok::<_, String>(if turns { counters()?[0] } else { 0 });
        let (decisions, before) = (stage.stat()?.decisions, grants()?);
        std::thread::sleep(Duration::from_secs(1));
        let decisions = stage.stat()?.decisions - decisions;
        let grants = grants()? - before;
        println!("# second {second}: {decisions} decisions, {grants} grants");
        ensure!(decisions > 0, "no decision in second {second}");
        ensure!(!turns || grants > 0, "no grant in second {second}");
    }
    Ok(())
}

fn store_beside_a_mapping_is_no_way_past_the_gate() -> Verdict {
    let plain = baseline()?;
    let figures = measure("remap", WINDOW)?;
    ensure!(
        figures.used <= plain.used + 1.0,
        "it got {:.1} %, the plain hog {:.1} %",
        figures.used,
        plain.used
    );
    Ok(())
}

/// A hog that maps its page again at the same address, in a loop, while it stores.
fn remap() -> Result<(), String> {
    let (client, mut channels) = open(1, 4)?;
    let ready = ready(&client, &channels[0])?;
    let map = ready
        .map(Visibility::Shared)
        .map_err(|error| error.to_string())?;
    let address = map.address();
    let linear = ready.linear;
    channels[0].use_userd(map, linear);
    std::thread::spawn(move || loop {
        // A mapping that fails leaves the address unmapped, and the program ends there.
        let _ = map_at(&ready, std::ptr::without_provenance_mut(address));
        std::thread::sleep(Duration::from_micros(50));
    });
    keep_busy(&mut channels[0], LIFE);
    Ok(())
}

/// TIMEOUT: longest time that [`crowd`] takes, and that its children live: on branch 470 each mapping
/// waits for a decision.
pub(super) const CROWD_LIFE: Duration = Duration::from_secs(300);

fn full_quota_of_one_user_leaves_room_for_others() -> Verdict {
    let stage = Stage::set(&model(LAZY), "enforce=1")?;
    let mut program = Program::start("crowd")?;
    let text = program.line(CROWD_LIFE)?;
    println!("# {}", text.trim());
    let clients = stage.stat()?.clients.len();
    ensure!(
        (2_000..=2_100).contains(&clients),
        "{clients} clients, not as many as one user may have"
    );
    // Another user's process is a client of its own, and is accounted.
    let stranger = Load::start_as(1001, "--kernel-us 200 --wait block --channels 1")?;
    let client = stage.wait_until_measured(stranger.pid())?;
    println!("# {clients} clients; the stranger is client {}", client.id);
    drop(stranger);
    drop(program);
    stage.teardown()
}

/// Forks a process that does something before this returns, and keeps running; whether it could.
fn fork_after(act: impl FnOnce() -> bool) -> Result<bool, String> {
    let (done, told) = nix::unistd::pipe().map_err(|errno| errno.to_string())?;
    if sys::fork().map_err(|error| error.to_string())?.is_none() {
        if act() {
            let _ = nix::unistd::write(&told, &[1]);
        }
        drop(told);
        std::thread::sleep(CROWD_LIFE);
        sys::exit_now(0);
    }
    drop(told);
    let read = nix::unistd::read(&done, &mut [0]).map_err(|errno| errno.to_string())?;
    Ok(read == 1)
}

/// More processes than one user may have clients: each has allocated through a control file, and
/// the first process prepares its page on that file and maps it. `crowd wait` first reads a line.
fn crowd(arguments: &[String]) -> Result<(), String> {
    const PROCESSES: u32 = 2_200;
    if !arguments.is_empty() {
        next_line()?;
    }
    let (client, mut channels) = open(1, 4)?;
    let version = rm::check_version(client.ctl()).map_err(|error| error.to_string())?;
    if version.version.starts_with(b"340.") {
        // On 340 a page belongs to the process that maps it: each maps one of its own.
        for _ in 0..PROCESSES {
            // It does not stay open: the driver has room for a thousand RM clients.
            let opened = fork_after(|| open(1, 4).is_ok())?;
            ensure!(opened, "a child could not open the GPU");
        }
        println!("{PROCESSES} processes");
        keep_busy(&mut channels[0], CROWD_LIFE);
        return Ok(());
    }
    for _ in 0..PROCESSES {
        let ctl = rm::open_node(rm::CTL_PATH).map_err(|error| error.to_string())?;
        fork_after(|| {
            let mut alloc = abi::Alloc {
                class: abi::class::ROOT_CLIENT,
                ..Default::default()
            };
            let _ = sys::call(ctl.as_fd(), nr::ALLOC, &mut alloc, &mut (), |_, _| ());
            // It need not stay; the driver has room for a thousand of them.
            let mut free = abi::Free {
                root: alloc.handle,
                object: alloc.handle,
                ..Default::default()
            };
            let _ = sys::call(ctl.as_fd(), nr::FREE, &mut free, &mut (), |_, _| ());
            true
        })?;
        let ready = prepare_through(&ctl, &client, &channels[0])?;
        drop(
            ready
                .map(Visibility::Shared)
                .map_err(|error| error.to_string())?,
        );
    }
    println!("{PROCESSES} processes");
    keep_busy(&mut channels[0], CROWD_LIFE);
    Ok(())
}
