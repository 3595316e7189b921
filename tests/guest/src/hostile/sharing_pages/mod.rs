// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Submission pages that more than the process that maps them reaches: other processes,
//! debuggers, and the kernel for one of its system calls.
//!
//! | file | contents |
//! |---|---|
//! | [`passing`] | processes that share an address space, and files that are passed on |
//! | [`buffers`] | system calls with a throttled page as their buffer |
//! | [`uring`] | the calls of io_uring, for `buffers` |
//! | [`debugging`] | stores by `ptrace` and `/proc/PID/mem` |
//! | [`moving`] | `mremap` and other changes of the address space |
//! | [`sleepers`] | ten thousand threads that wait for one page |
//! | [`epoll`] | epoll on the nodes of the driver and of LoGA |
//!
//! [`Mapped`] tells by `/proc/PID/mem` whether a process has a page-table entry for a page.

pub(super) mod buffers;
pub(super) mod debugging;
pub(super) mod epoll;
pub(super) mod moving;
pub(super) mod passing;
pub(super) mod sleepers;
mod uring;

use super::{dispatcher, Program};
use crate::ktap::{ensure, Test, Verdict};
use crate::sharing::{for_process, limit, set};
use crate::stage::Stage;
use crate::sysfs;
use loga_cli::stat::Client;
use nix::errno::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The tests of `make test`.
pub(super) fn quick() -> Vec<Test> {
    [
        passing::QUICK,
        buffers::TESTS,
        debugging::QUICK,
        moving::QUICK,
    ]
    .concat()
}

/// All tests of this folder.
pub(super) fn all() -> Vec<Test> {
    [
        passing::TESTS,
        buffers::TESTS,
        debugging::TESTS,
        moving::TESTS,
        sleepers::TESTS,
        epoll::TESTS,
    ]
    .concat()
}

/// TIMEOUT: for a program to print a line, and for a process to touch its page.
const SOON: Duration = Duration::from_secs(10);
/// TIMEOUT: until a page that was taken away has no entry: the main thread removes it.
const REVOKED: Duration = Duration::from_secs(1);
/// How often a page is looked at while its owner is throttled, and the pause in between.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(2);
/// What a program prints when it has printed all of its mappings.
const COMPLETE: &str = "complete";

/// Where a process has a page mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapped {
    pid: u32,
    address: u64,
}

impl Mapped {
    /// Of the calling process.
    fn own(address: usize) -> Self {
        Mapped {
            pid: std::process::id(),
            // CAST: user addresses are 64 bits here.
            address: address as u64,
        }
    }

    /// Prints it for [`mapped`].
    fn tell(self) {
        println!("at {} {}", self.pid, self.address);
    }

    fn parse(line: &str) -> Option<Self> {
        let (pid, address) = line.strip_prefix("at ")?.split_once(' ')?;
        Some(Mapped {
            pid: pid.parse().ok()?,
            address: address.parse().ok()?,
        })
    }

    /// Whether its process has a page-table entry there: the kernel reads pages of a device for a
    /// debugger only where there is one (`generic_access_phys`). It makes none.
    fn has_entry(self) -> Result<bool, String> {
        let path = format!("/proc/{}/mem", self.pid);
        let said = |error: std::io::Error| format!("{path}: {error}");
        let file = File::open(&path).map_err(said)?;
        match file.read_at(&mut [0; 4], self.address) {
            Ok(read) => Ok(read == 4),
            Err(error) if error.raw_os_error() == Some(Errno::EIO as i32) => Ok(false),
            Err(error) => Err(said(error)),
        }
    }

    /// Waits until it has an entry, or has none.
    fn wait_for_entry(self, wanted: bool, limit: Duration) -> Result<(), String> {
        let since = Instant::now();
        while self.has_entry()? != wanted {
            ensure!(
                since.elapsed() < limit,
                "{self:?}: an entry is {} after {limit:?}",
                if wanted { "missing" } else { "there" }
            );
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

/// The mappings that a program prints.
fn mapped(program: &mut Program) -> Result<Vec<Mapped>, String> {
    let mut mapped = Vec::new();
    loop {
        let line = program.line(SOON)?;
        if line == COMPLETE {
            return Ok(mapped);
        }
        mapped.push(Mapped::parse(&line).ok_or(format!("{line:?} is no mapping"))?);
    }
}

/// Throttles a process for longer than any test looks at it.
fn throttle(stage: &Stage, owner: u32) -> Result<(), String> {
    // One percent: for what was used before, it waits a hundred times as long.
    set(for_process(owner), limit(1))?;
    stage.wait_until_throttled(owner).map(drop)
}

/// Waits until each of these mappings has an entry: its process stores to it all the time. LoGA runs
/// without its dispatcher meanwhile: with one, an entry is there for some microseconds of each
/// submission, and a look meets it by chance.
fn wait_for_entries(mapped: &[Mapped]) -> Verdict {
    let dispatcher = dispatcher();
    if dispatcher.is_some() {
        sysfs::write("dispatch", "none")?;
    }
    for at in mapped {
        at.wait_for_entry(true, SOON)?;
    }
    dispatcher.map_or(Ok(()), |one| sysfs::write("dispatch", one.name()))
}

/// Checks that none of these mappings has an entry while the owner of their page is throttled, and that
/// each of them had one before: its process stores to it all the time.
fn check_no_entry_while_throttled(stage: &Stage, owner: u32, mapped: &[Mapped]) -> Verdict {
    wait_for_entries(mapped)?;
    throttle(stage, owner)?;
    for at in mapped {
        at.wait_for_entry(false, REVOKED)?;
    }
    let before = stage.client(owner)?.ok_or("no client")?;
    let mut seen = 0;
    for _ in 0..LOOKS {
        for at in mapped {
            seen += u32::from(at.has_entry()?);
        }
        std::thread::sleep(PAUSE);
    }
    let after = stage.client(owner)?.ok_or("no client")?;
    println!(
        "# {} mappings, {LOOKS} looks at each: {seen} entries",
        mapped.len()
    );
    ensure!(
        after.state == "throttled" && after.throttled_count == before.throttled_count,
        "it was not throttled all the time: {before:?}, {after:?}"
    );
    ensure!(seen == 0, "{seen} entries while the owner is throttled");
    Ok(())
}

/// Checks that LoGA has no mapping and no client, but for this process, which is one while it lives if
/// it has opened the GPU.
fn check_nothing_left(stage: &Stage) -> Verdict {
    let since = Instant::now();
    let own = i64::from(std::process::id());
    let stat = loop {
        let stat = stage.stat()?;
        let is_left = |client: &Client| i64::from(client.pid) != own || client.channels != 0;
        let left = stat.clients.iter().find(|client| is_left(client));
        let Some(left) = left else { break stat };
        ensure!(since.elapsed() < SOON, "left behind: {left:?}");
        std::thread::sleep(PAUSE);
    };
    let unmanaged = stat.unmanaged_mappings + stat.unmanaged_files;
    ensure!(
        unmanaged == 0,
        "{unmanaged} mappings or files were not managed"
    );
    stage.check_no_fallback()
}
