// SPDX-License-Identifier: GPL-2.0

//! [tool] System calls that have a submission page as their buffer, or find their arguments there.
//!
//! With the driver alone, some succeed and some are refused. With LoGA each has the same answer while
//! its owner is not throttled, and fails at once otherwise, where it does not fail anyway.

use super::super::bystander::{Bystander, LIMIT, PLACE};
use super::super::ownership::{keep_busy, open, ready, LIFE};
use super::super::{dispatcher, model, Program};
use super::uring::{Op, Uring};
use super::{check_nothing_left, throttle, Mapped, SOON};
use crate::ktap::{ensure, Verdict};
use crate::stage::{Stage, LAZY};
use loga::rm as abi;
use loga::uapi;
use nix::errno::Errno;
use nix::libc;
use nix::libc::c_long;
use std::fs::File;
use std::io::stdin;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
use throttle::sys;
use throttle::sys::Visibility;

crate::ktap::tests![
    system_calls_on_a_throttled_page_fail_at_once: timed,
];

/// The programs of this file.
pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] = &[
    ("buffers", |_| buffers()),
    ("busy-buffers", |_| busy_buffers()),
];

/// Offset in a page of the last slot, of a channel that the program does not have.
const LAST_SLOT: usize = 7 * 512;
/// Bytes that a call reads or writes.
const BYTES: usize = 8;
/// How often each call is made.
const TIMES: u32 = 20;

/// How a call ended.
type Outcome = Result<i64, Errno>;

/// What calls are made with.
struct Means {
    /// Within the page, and other memory.
    page: usize,
    heap: Box<[usize; 8]>,
    pipe: (OwnedFd, OwnedFd),
    /// A pipe that always has something to read.
    full: (OwnedFd, OwnedFd),
    pair: (UnixDatagram, UnixDatagram),
    zero: File,
    memory: File,
    file: File,
    gpu: File,
    uring: Uring,
}

impl Means {
    fn make(page: usize) -> Result<Self, String> {
        let pipe = || {
            let flags = nix::fcntl::OFlag::O_NONBLOCK;
            nix::unistd::pipe2(flags).map_err(|errno| errno.to_string())
        };
        let open = |path: &str| {
            let mut options = File::options();
            let file = options.read(true).write(true).open(path);
            file.map_err(|error| format!("{path}: {error}"))
        };
        let pair = UnixDatagram::pair().map_err(|error| error.to_string())?;
        pair.0
            .set_nonblocking(true)
            .map_err(|error| error.to_string())?;
        let path = format!("/tmp/buffers-{}", std::process::id());
        std::fs::write(&path, [0; 4096]).map_err(|error| error.to_string())?;
        let file = open(&path)?;
        std::fs::remove_file(&path).map_err(|error| error.to_string())?;
        Ok(Means {
            page,
            heap: Box::new([0; 8]),
            pipe: pipe()?,
            full: pipe()?,
            pair,
            zero: open("/dev/zero")?,
            memory: open("/proc/self/mem")?,
            file,
            gpu: open("/dev/nvidia0")?,
            uring: Uring::new()?,
        })
    }

    fn heap(&self) -> usize {
        self.heap.as_ptr().expose_provenance()
    }

    /// A vector of this memory.
    fn vector(&self, memory: usize) -> [usize; 2] {
        [memory, BYTES]
    }

    /// Something to read.
    fn fill(&self) -> Outcome {
        let arguments = [fd(&self.full.1), self.heap(), BYTES];
        ask(libc::SYS_write, &arguments)
    }
}

/// Makes a system call.
fn ask(number: c_long, arguments: &[usize]) -> Outcome {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: addresses are of the page, in a slot that no channel of the program has, or of memory
    // that lives longer than the call; the kernel checks everything else.
    let rc = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    Errno::result(rc)
}

fn fd(file: &impl AsRawFd) -> usize {
    // CAST: descriptors are small and positive.
    file.as_raw_fd() as usize
}

fn at(words: &[usize]) -> usize {
    words.as_ptr().expose_provenance()
}

/// A call: its name, and what it does.
type Call = (&'static str, fn(&Means) -> Outcome);

/// A request of a structure of eight bytes.
const FREE: usize = abi::request(abi::nr::FREE, size_of::<abi::Free>()) as usize;

/// Every call.
const CALLS: &[Call] = &[
    ("write to a pipe", |m| {
        ask(libc::SYS_write, &[fd(&m.pipe.1), m.page, BYTES])
    }),
    ("writev to a pipe", |m| {
        let vector = m.vector(m.page);
        ask(libc::SYS_writev, &[fd(&m.pipe.1), at(&vector), 1])
    }),
    ("vmsplice to a pipe", |m| {
        let vector = m.vector(m.page);
        ask(libc::SYS_vmsplice, &[fd(&m.pipe.1), at(&vector), 1, 0])
    }),
    ("vmsplice of a gift", |m| {
        let (vector, gift) = ([m.page & !4095, 4096], 8);
        ask(libc::SYS_vmsplice, &[fd(&m.pipe.1), at(&vector), 1, gift])
    }),
    ("read from a pipe", |m| {
        m.fill()?;
        ask(libc::SYS_read, &[fd(&m.full.0), m.page, BYTES])
    }),
    ("send to a socket", |m| {
        let nowait = libc::MSG_DONTWAIT as usize;
        ask(libc::SYS_sendto, &[fd(&m.pair.0), m.page, BYTES, nowait])
    }),
    ("sendmsg to a socket", |m| {
        let vector = m.vector(m.page);
        // struct msghdr: no name, one vector, no control data.
        let message = [0, 0, at(&vector), 1, 0, 0, 0];
        let nowait = libc::MSG_DONTWAIT as usize;
        ask(libc::SYS_sendmsg, &[fd(&m.pair.0), at(&message), nowait])
    }),
    ("receive from a socket", |m| {
        ask(libc::SYS_sendto, &[fd(&m.pair.1), m.heap(), BYTES])?;
        let nowait = libc::MSG_DONTWAIT as usize;
        ask(libc::SYS_recvfrom, &[fd(&m.pair.0), m.page, BYTES, nowait])
    }),
    ("readv of zeroes", |m| {
        let vector = m.vector(m.page);
        ask(libc::SYS_readv, &[fd(&m.zero), at(&vector), 1])
    }),
    ("write to a file", |m| {
        ask(libc::SYS_pwrite64, &[fd(&m.file), m.page, BYTES, 0])
    }),
    ("read from a file", |m| {
        ask(libc::SYS_pread64, &[fd(&m.file), m.page, BYTES, 0])
    }),
    ("process_vm_readv", |m| {
        let (own, other) = (m.vector(m.heap()), m.vector(m.page));
        let pid = std::process::id() as usize;
        ask(
            libc::SYS_process_vm_readv,
            &[pid, at(&own), 1, at(&other), 1],
        )
    }),
    ("process_vm_writev", |m| {
        let (own, other) = (m.vector(m.heap()), m.vector(m.page));
        let pid = std::process::id() as usize;
        ask(
            libc::SYS_process_vm_writev,
            &[pid, at(&own), 1, at(&other), 1],
        )
    }),
    ("process_vm_writev from it", |m| {
        let (own, other) = (m.vector(m.page), m.vector(m.heap()));
        let pid = std::process::id() as usize;
        ask(
            libc::SYS_process_vm_writev,
            &[pid, at(&own), 1, at(&other), 1],
        )
    }),
    ("write by /proc/self/mem", |m| {
        ask(
            libc::SYS_pwrite64,
            &[fd(&m.memory), m.heap(), BYTES, m.page],
        )
    }),
    ("futex of a process", |m| {
        // FUTEX_WAIT_PRIVATE for a value that is not there.
        ask(libc::SYS_futex, &[m.page, 128, 0xffff])
    }),
    ("futex of all", |m| {
        ask(libc::SYS_futex, &[m.page, 0, 0xffff])
    }),
    ("MADV_POPULATE_WRITE", |m| {
        ask(libc::SYS_madvise, &[m.page & !4095, 4096, 23])
    }),
    ("mlock", |m| ask(libc::SYS_mlock, &[m.page & !4095, 4096])),
    ("munlock", |m| {
        ask(libc::SYS_munlock, &[m.page & !4095, 4096])
    }),
    ("argument of ppoll", |m| {
        let now = [0, 0];
        ask(libc::SYS_ppoll, &[m.page, 1, at(&now), 0, 8])
    }),
    ("path of a file", |m| {
        let here = libc::AT_FDCWD as usize;
        ask(libc::SYS_faccessat, &[here, m.page, 0])
    }),
    ("result of clock_gettime", |m| {
        // CLOCK_PROCESS_CPUTIME_ID: the others are read without the kernel.
        ask(libc::SYS_clock_gettime, &[2, m.page])
    }),
    ("getrandom", |m| {
        ask(libc::SYS_getrandom, &[m.page, BYTES, 0])
    }),
    ("argument of a call of the driver", |m| {
        ask(libc::SYS_ioctl, &[fd(&m.gpu), FREE, m.page])
    }),
    ("argument of a snapshot", |m| {
        let loga = File::open(uapi::DEVICE_PATH);
        // Without LoGA there is no such file; any other one does not know the call.
        let file = loga.as_ref().unwrap_or(&m.zero);
        let answer = ask(
            libc::SYS_ioctl,
            &[fd(file), uapi::IOC_SNAPSHOT as usize, m.page],
        );
        answer.or(Err(Errno::EINVAL))
    }),
    ("io_uring: write", |m| {
        m.uring.call(Op::Write, &m.pipe.1, m.page, BYTES, false)
    }),
    ("io_uring: write by a worker", |m| {
        m.uring.call(Op::Write, &m.file, m.page, BYTES, true)
    }),
    ("io_uring: read", |m| {
        m.uring.call(Op::Read, &m.zero, m.page, BYTES, false)
    }),
    ("io_uring: read by a worker", |m| {
        m.uring.call(Op::Read, &m.file, m.page, BYTES, true)
    }),
    ("io_uring: registered buffer", |m| {
        m.uring.register(m.page & !4095, 4096)
    }),
];

/// A program with a hog's channel, and a second mapping of its page.
fn with_means(
    act: impl FnOnce(Means) -> Result<(), String> + Send + 'static,
) -> Result<(), String> {
    let (client, mut channels) = open(1, 4)?;
    let page = ready(&client, &channels[0])?
        .map(Visibility::Shared)
        .map_err(|error| error.to_string())?;
    let address = page.address() + LAST_SLOT;
    Mapped::own(page.address()).tell();
    std::thread::spawn(move || {
        let done = Means::make(address).and_then(act);
        if let Err(reason) = &done {
            println!("error {reason}");
        }
        drop(page);
        // The hog may be inactive.
        sys::exit_now(done.is_err().into());
    });
    keep_busy(&mut channels[0], LIFE);
    Ok(())
}

/// For each line that it gets: makes every call, and prints a line for each, and an empty one.
fn buffers() -> Result<(), String> {
    with_means(|means| {
        let mut line = String::new();
        while matches!(stdin().read_line(&mut line), Ok(1..)) {
            for (name, call) in CALLS {
                let (mut longest, mut outcomes) = (Duration::ZERO, Vec::new());
                for _ in 0..TIMES {
                    let since = Instant::now();
                    let outcome = call(&means);
                    longest = longest.max(since.elapsed());
                    let word = match outcome {
                        Ok(_) => "success".to_owned(),
                        Err(errno) => format!("{errno:?}"),
                    };
                    if !outcomes.contains(&word) {
                        outcomes.push(word);
                    }
                    drain(&means);
                }
                println!("{name}: {} {}", longest.as_micros(), outcomes.join(" "));
            }
            println!();
        }
        Ok(())
    })
}

/// Empties what calls have filled.
fn drain(means: &Means) {
    for file in [fd(&means.pipe.0), fd(&means.full.0)] {
        let mut room = [0_usize; 512];
        let room = room.as_mut_ptr().expose_provenance();
        while matches!(ask(libc::SYS_read, &[file, room, 4096]), Ok(1..)) {}
    }
    let mut room = [0; BYTES];
    let _ = means.pair.1.set_nonblocking(true);
    while means.pair.1.recv(&mut room).is_ok() {}
}

/// Makes every call over and over; another process of its, with the same pipe, socket and file, tells
/// how long its own calls take.
fn busy_buffers() -> Result<(), String> {
    with_means(|means| {
        let forked = sys::fork().map_err(|error| error.to_string())?;
        if forked.is_none() {
            let mut longest = Duration::ZERO;
            let since = Instant::now();
            while since.elapsed() < BUSY {
                for call in [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_sendto] {
                    let file = match call {
                        libc::SYS_write => fd(&means.pipe.1),
                        libc::SYS_pwrite64 => fd(&means.file),
                        _ => fd(&means.pair.0),
                    };
                    let nowait = if call == libc::SYS_sendto {
                        libc::MSG_DONTWAIT as usize
                    } else {
                        0
                    };
                    let begin = Instant::now();
                    // A full pipe is an answer, too.
                    let _ = ask(call, &[file, means.heap(), BYTES, nowait]);
                    longest = longest.max(begin.elapsed());
                }
                drain(&means);
                std::thread::sleep(Duration::from_micros(300));
            }
            println!("{}", longest.as_micros());
            sys::exit_now(0);
        }
        let since = Instant::now();
        while since.elapsed() < BUSY {
            for (_, call) in CALLS {
                let _ = call(&means);
            }
            drain(&means);
            std::thread::sleep(Duration::from_micros(500));
        }
        nix::sys::wait::wait()
            .map(drop)
            .map_err(|errno| errno.to_string())
    })
}

/// How long `busy-buffers` makes its calls, and how long others are watched meanwhile.
const BUSY: Duration = Duration::from_secs(3);
const WATCH: Duration = Duration::from_secs(2);

/// A call, what it answered, and how long it took at most in microseconds.
type Answer = (String, Vec<String>, u64);

/// Has the program make all calls.
fn answers(program: &mut Program) -> Result<Vec<Answer>, String> {
    program.send("go")?;
    let mut answers = Vec::new();
    loop {
        let line = program.line(SOON)?;
        if line.is_empty() {
            ensure!(answers.len() == CALLS.len(), "{} calls", answers.len());
            return Ok(answers);
        }
        let (name, rest) = line.rsplit_once(": ").ok_or(line.clone())?;
        let mut words = rest.split(' ');
        let longest = words.next().and_then(|word| word.parse().ok());
        let outcomes = words.map(str::to_owned).collect();
        answers.push((name.to_owned(), outcomes, longest.ok_or(line.clone())?));
    }
}

/// Starts the program; its page.
fn start() -> Result<(Program, Mapped), String> {
    let mut program = Program::start("buffers")?;
    let line = program.line(SOON)?;
    let at = Mapped::parse(&line).ok_or(line)?;
    Ok((program, at))
}

fn system_calls_on_a_throttled_page_fail_at_once() -> Verdict {
    let stage = Stage::without_loga(&model(LAZY))?;
    let (mut program, _) = start()?;
    let alone = answers(&mut program)?;
    drop(program);
    stage.teardown()?;
    let stage = Stage::set(&model(LAZY), "enforce=1")?;
    let (mut program, at) = start()?;
    stage.wait_until_measured(program.pid())?;
    let free = answers(&mut program)?;
    throttle(&stage, program.pid())?;
    at.wait_for_entry(false, super::REVOKED)?;
    let before = stage.client(program.pid())?.ok_or("no client")?;
    let throttled = answers(&mut program)?;
    let after = stage.client(program.pid())?.ok_or("no client")?;
    ensure!(
        after.state == "throttled" && after.throttled_count == before.throttled_count,
        "it was not throttled all the time"
    );
    ensure!(!at.has_entry()?, "a call has made an entry");
    for (index, (name, alone, _)) in alone.iter().enumerate() {
        let (_, free, _) = &free[index];
        let (_, outcomes, longest) = &throttled[index];
        println!("# {name}: {alone:?}, throttled {outcomes:?} within {longest} us");
        // The kernel never stores for a process that waits for its turn.
        let stopped = |outcome: &String| matches!(outcome.as_str(), "EFAULT" | "EIO");
        let decided = dispatcher().is_some() && free.iter().all(stopped);
        ensure!(
            alone == free || decided,
            "{name}: {alone:?}, with LoGA {free:?}"
        );
        ensure!(outcomes.len() == 1, "{name}: {outcomes:?}");
        let outcome = outcomes.first().map_or("", String::as_str);
        let refused = outcome == "EFAULT" || outcomes == alone && outcome != "success";
        let by_debugger = name.contains("/proc") && outcome == "EIO";
        let without_access = name.contains("lock") && outcomes == alone;
        ensure!(
            refused || by_debugger || without_access,
            "{name}: {outcomes:?} on a throttled page"
        );
        ensure!(
            u128::from(*longest) <= LIMIT.as_micros(),
            "{name} took {longest} us"
        );
    }
    drop(program);
    check_nothing_left(&stage)?;
    let mut busy = Program::start("busy-buffers")?;
    busy.line(SOON)?;
    stage.wait_until_measured(busy.pid())?;
    throttle(&stage, busy.pid())?;
    let longest = Bystander::open()?.watch(WATCH)?;
    let own: u128 = busy.line(SOON)?.parse().map_err(|_| "no number")?;
    println!(
        "# {longest}; calls of a process with the same pipe, socket and file {own} us at most"
    );
    longest.check()?;
    ensure!(own <= LIMIT.as_micros(), "a call took {own} us beside them");
    drop(busy);
    check_nothing_left(&stage)?;
    let _ = std::fs::remove_dir_all(PLACE);
    stage.teardown()
}
