// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `mremap` and other changes of the address space around a submission page.

use super::super::ownership::{check, keep_busy, open, ready, LIFE};
use super::super::{model, Program};
use super::{
    check_nothing_left, throttle, wait_for_entries, Mapped, COMPLETE, LOOKS, PAUSE, REVOKED, SOON,
};
use crate::ktap::{ensure, Verdict};
use crate::sharing::{for_process, limit, set};
use crate::stage::{Stage, LAZY};
use loga::rm as abi;
use loga::rm::submit::USERD_GP_PUT;
use nix::errno::Errno;
use nix::libc;
use nix::libc::c_long;
use std::io::stdin;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use throttle::rm::ReadyToMap;
use throttle::sys;

crate::ktap::tests![
    changes_of_the_address_space_open_no_throttled_page,
    page_that_moves_before_each_store_gains_nothing: timed,
];

/// The tests of `make test`.
pub(super) const QUICK: &[crate::ktap::Test] = &[TESTS[0]];

/// The programs of this file.
pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] =
    &[("mover", |_| mover()), ("changes", |_| changes())];

/// Page size.
// CAST: 4096.
const PAGE: usize = abi::PAGE_SIZE as usize;
/// Length of a hog's kernels, and how many it keeps queued: those of the plain hog.
const KERNEL_NS: u64 = 1_000_000;
const DEPTH: u32 = 4;
/// Offset in a page of the last slot, of a channel that the program does not have.
const LAST_SLOT: usize = 7 * 512;
/// `MREMAP_DONTUNMAP`, `UFFD_USER_MODE_ONLY`.
const DONTUNMAP: usize = 4;
const USER_MODE_ONLY: usize = 1;

/// Makes a system call on addresses of [`Area`]s and of pages that were mapped there.
fn ask(number: c_long, arguments: &[usize]) -> Result<usize, Errno> {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: only pages that no Rust object has are mapped, moved or unmapped.
    let rc = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    // CAST: an address, or a small number.
    Errno::result(rc).map(|rc| rc as usize)
}

/// Reserves some pages without access.
fn reserve(pages: usize) -> Result<usize, String> {
    // CAST: flags and -1.
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let arguments = [0, pages * PAGE, 0, flags, usize::MAX, 0];
    ask(libc::SYS_mmap, &arguments).map_err(|errno| format!("mmap: {errno}"))
}

/// Maps a prepared page at an address of a reserved area.
fn map_at(ready: &ReadyToMap, address: usize) -> Result<usize, Errno> {
    // CAST (all): flags, a descriptor, an offset.
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_SHARED | libc::MAP_FIXED) as usize;
    let (file, offset) = (ready.file.as_raw_fd() as usize, ready.offset as usize);
    ask(
        libc::SYS_mmap,
        &[address, PAGE, access, flags, file, offset],
    )
}

/// Moves a page to an address of a reserved area.
fn move_to(from: usize, to: usize, more: usize) -> Result<usize, Errno> {
    // CAST: flags.
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize | more;
    ask(libc::SYS_mremap, &[from, PAGE, PAGE, flags, to])
}

fn store(address: usize, value: u32) {
    let at = std::ptr::without_provenance_mut::<u32>(address);
    // SAFETY: the caller has just mapped a page there; the word is volatile.
    unsafe { at.write_volatile(value) };
}

/// A hog that moves its page before each store.
fn mover() -> Result<(), String> {
    let (client, mut channels) = open(1, DEPTH)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    channel.unmap_userd();
    let ready = ready(&client, channel)?;
    // CAST: less than a page.
    let put = (ready.linear % abi::PAGE_SIZE + USERD_GP_PUT) as usize;
    let mut addresses = [reserve(1)?, reserve(1)?];
    map_at(&ready, addresses[0]).map_err(|errno| errno.to_string())?;
    let since = Instant::now();
    while since.elapsed() < LIFE {
        if channel.sequence().wrapping_sub(channel.completed()) < DEPTH {
            let sequence = channel.prepare(KERNEL_NS, false);
            move_to(addresses[0], addresses[1], 0).map_err(|errno| format!("mremap: {errno}"))?;
            addresses.swap(0, 1);
            store(addresses[0] + put, sequence % (channel.depth_max() + 1));
        } else {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    Ok(())
}

/// A reserved area, in whose first page a submission page was mapped.
struct Area<'a> {
    start: usize,
    ready: &'a ReadyToMap,
}

/// What a change answered, and where the page is now, if it is mapped.
type Changed = (Result<usize, Errno>, Option<usize>);

/// A change of the address space: its name, and what it does.
type Change = (&'static str, fn(&Area<'_>) -> Changed);

impl Area<'_> {
    /// After a change that leaves the page where it is.
    fn stays(&self, answer: Result<usize, Errno>) -> Changed {
        (answer.map(|_| 0), Some(self.start))
    }

    fn advise(&self, advice: usize) -> Changed {
        self.stays(ask(libc::SYS_madvise, &[self.start, PAGE, advice]))
    }

    fn resize(&self, old: usize, new: usize) -> Changed {
        // CAST: a flag.
        let flags = libc::MREMAP_MAYMOVE as usize;
        self.stays(ask(libc::SYS_mremap, &[self.start, old, new, flags]))
    }

    fn close_and_open(&self) -> Result<usize, Errno> {
        ask(libc::SYS_mprotect, &[self.start, PAGE, 0])?;
        // CAST: flags.
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        ask(libc::SYS_mprotect, &[self.start, PAGE, access])
    }

    /// Registers the page for faults that the program answers itself.
    fn userfaultfd(&self) -> Result<usize, Errno> {
        /// `UFFDIO_API` and `UFFDIO_REGISTER`.
        const CALLS: [usize; 2] = [0xc018_aa3f, 0xc020_aa00];
        let file = ask(libc::SYS_userfaultfd, &[USER_MODE_ONLY])?;
        let mut api = [0xaa_usize, 0, 0];
        // Missing pages: bit 0.
        let mut register = [self.start, PAGE, 1, 0];
        let call = |number, words: &mut [usize]| {
            let at = words.as_mut_ptr().expose_provenance();
            ask(libc::SYS_ioctl, &[file, number, at])
        };
        let answer = call(CALLS[0], &mut api).and_then(|_| call(CALLS[1], &mut register));
        let _ = ask(libc::SYS_close, &[file]);
        answer
    }
}

const CHANGES: &[Change] = &[
    ("mremap to another address", |area| {
        let to = area.start + 2 * PAGE;
        (move_to(area.start, to, 0).map(|_| 0), Some(to))
    }),
    ("mremap to two pages", |area| area.resize(PAGE, 2 * PAGE)),
    ("mremap to no page", |area| area.resize(PAGE, 0)),
    ("mremap of no page to one", |area| area.resize(0, PAGE)),
    ("mremap of both pages to one", |area| {
        area.resize(2 * PAGE, PAGE)
    }),
    ("MREMAP_DONTUNMAP", |area| {
        area.stays(move_to(area.start, area.start + 2 * PAGE, DONTUNMAP))
    }),
    ("mremap of other memory over it", |area| {
        let other = area.start + 3 * PAGE;
        (move_to(other, area.start, 0).map(|_| 0), None)
    }),
    ("mmap over it", |area| {
        area.stays(map_at(area.ready, area.start))
    }),
    ("mprotect", |area| area.stays(area.close_and_open())),
    ("userfaultfd", |area| area.stays(area.userfaultfd())),
    ("MADV_DONTNEED", |area| area.advise(4)),
    ("MADV_WILLNEED", |area| area.advise(3)),
    ("MADV_REMOVE", |area| area.advise(9)),
    ("MADV_COLD", |area| area.advise(20)),
    ("MADV_PAGEOUT", |area| area.advise(21)),
    ("MADV_POPULATE_READ", |area| area.advise(22)),
    ("MADV_POPULATE_WRITE", |area| area.advise(23)),
    ("MADV_DONTFORK", |area| area.advise(10)),
    ("MADV_DOFORK", |area| area.advise(11)),
];

/// When it gets a line: makes each change in an area of its own and prints the answer, stores to each
/// page that is left in a thread of its own, and prints where these pages are.
fn changes() -> Result<(), String> {
    let (client, mut channels) = open(1, DEPTH)?;
    let ready = ready(&client, &channels[0])?;
    let changer = move || -> Result<(), String> {
        let said = |errno: Errno| errno.to_string();
        stdin()
            .read_line(&mut String::new())
            .map_err(|error| error.to_string())?;
        let mut pages = Vec::new();
        for (name, change) in CHANGES {
            let start = reserve(5)?;
            map_at(&ready, start).map_err(said)?;
            let ready = &ready;
            let (answer, page) = change(&Area { start, ready });
            println!("{name}: {answer:?}");
            pages.extend(page);
        }
        for page in pages {
            Mapped::own(page).tell();
            std::thread::spawn(move || loop {
                store(page + LAST_SLOT, 0);
                std::thread::sleep(Duration::from_millis(1));
            });
        }
        println!("{COMPLETE}");
        std::thread::sleep(LIFE);
        Ok(())
    };
    std::thread::spawn(move || {
        if let Err(reason) = changer() {
            println!("error {reason}");
        }
        sys::exit_now(1);
    });
    keep_busy(&mut channels[0], LIFE);
    Ok(())
}

/// Has the program make its changes: what they answered, and where its pages are.
fn make_changes(program: &mut Program) -> Result<(Vec<String>, Vec<Mapped>), String> {
    program.send("go")?;
    let (mut answers, mut mapped) = (Vec::new(), Vec::new());
    loop {
        let line = program.line(SOON)?;
        match Mapped::parse(&line) {
            _ if line == COMPLETE => break,
            Some(at) => mapped.push(at),
            None => answers.push(line),
        }
    }
    ensure!(answers.len() == CHANGES.len(), "{answers:?}");
    Ok((answers, mapped))
}

fn changes_of_the_address_space_open_no_throttled_page() -> Verdict {
    let stage = Stage::without_loga(&model(LAZY))?;
    let mut program = Program::start("changes")?;
    let (alone, _) = make_changes(&mut program)?;
    drop(program);
    stage.teardown()?;
    let stage = Stage::set(&model(LAZY), "enforce=1")?;
    let mut program = Program::start("changes")?;
    let owner = program.pid();
    stage.wait_until_measured(owner)?;
    throttle(&stage, owner)?;
    std::thread::sleep(REVOKED);
    let before = stage.client(owner)?.ok_or("no client")?;
    let (answers, mapped) = make_changes(&mut program)?;
    let mut seen = 0;
    for _ in 0..LOOKS {
        for at in &mapped {
            seen += u32::from(at.has_entry()?);
        }
        std::thread::sleep(PAUSE);
    }
    let after = stage.client(owner)?.ok_or("no client")?;
    for (alone, answer) in alone.iter().zip(&answers) {
        println!("# {answer}");
        ensure!(alone == answer, "without LoGA {alone}, with LoGA {answer}");
    }
    println!(
        "# {} pages, {LOOKS} looks at each: {seen} entries",
        mapped.len()
    );
    ensure!(
        after.state == "throttled" && after.throttled_count == before.throttled_count,
        "it was not throttled all the time"
    );
    ensure!(seen == 0, "{seen} entries while the owner is throttled");
    // All of them wait for it.
    set(for_process(owner), limit(100))?;
    wait_for_entries(&mapped)?;
    drop(program);
    check_nothing_left(&stage)?;
    stage.teardown()
}

fn page_that_moves_before_each_store_gains_nothing() -> Verdict {
    check("mover")
}
