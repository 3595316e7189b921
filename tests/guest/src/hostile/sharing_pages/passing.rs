// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Processes that share an address space with the owner of a page (`CLONE_VM`, `vfork`), and
//! files that are passed to processes of the same and of another user (`SCM_RIGHTS`).

use super::super::ownership::{check, check_all, check_totals, keep_busy, open, ready, LIFE};
use super::super::{branch, model, Program, USER};
use super::{check_no_entry_while_throttled, check_nothing_left, mapped, Mapped, COMPLETE};
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::stage::{Stage, LAZY};
use loga::rm as abi;
use loga::rm::submit::USERD_GP_PUT;
use nix::errno::Errno;
use nix::libc;
use nix::libc::{c_int, c_void};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};
use throttle::channel::Channel;
use throttle::rm::{Client, ReadyToMap};
use throttle::sys;
use throttle::sys::Visibility;

crate::ktap::tests![
    no_process_that_shares_a_throttled_page_has_an_entry,
    children_with_the_memory_of_the_owner_gain_nothing: timed,
    child_of_vfork_gains_nothing: timed,
    channels_of_children_that_have_ended_are_charged: timed,
    page_passed_to_another_process_gains_nothing: timed,
    page_passed_to_another_user_gains_nothing: timed,
];

/// The tests of `make test`.
pub(super) const QUICK: &[crate::ktap::Test] = &[TESTS[0], TESTS[5]];

/// The programs of this file.
pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] = &[
    ("clone-vm", |_| clone_vm()),
    ("vfork", |_| vfork()),
    ("clone-files", |_| clone_files()),
    ("take", take),
    ("give", give),
];

/// Length of a hog's kernels, and how many it keeps queued: those of the plain hog.
const KERNEL_NS: u64 = 1_000_000;
const DEPTH: u32 = 4;
/// Between two looks at a channel.
const PAUSE: Duration = Duration::from_micros(200);
/// Children of `clone-vm`.
const CHILDREN: usize = 3;
/// How long a channel of `clone-files` is used.
const TURN: Duration = Duration::from_millis(50);
/// Bytes of the stack of a child.
const STACK: usize = 256 << 10;

/// Starts a process with these flags beside those of `fork`; 0 is no answer here. With `CLONE_VM` it
/// has the caller's memory, its thread-local storage included: while both run, `act` may not allocate.
fn start(flags: c_int, act: impl FnOnce() + 'static) -> Result<Pid, String> {
    extern "C" fn run(argument: *mut c_void) -> c_int {
        // SAFETY: made by `Box::into_raw` below, for this process alone.
        let act = unsafe { Box::from_raw(argument.cast::<Box<dyn FnOnce()>>()) };
        act();
        sys::exit_now(0)
    }
    let act: Box<dyn FnOnce()> = Box::new(act);
    let argument = Box::into_raw(Box::new(act)).cast();
    // Lives as long as the child may: it is never freed.
    let stack = Box::leak(vec![0_u128; STACK / 16].into_boxed_slice());
    let top = stack.as_mut_ptr_range().end;
    // SAFETY: the function takes the argument, the stack is its own and ends at `top`.
    let pid = unsafe { libc::clone(run, top.cast(), flags | libc::SIGCHLD, argument) };
    Errno::result(pid)
        .map(Pid::from_raw)
        .map_err(|errno| format!("clone: {errno}"))
}

/// Maps a page; where it lies.
fn map(ready: &ReadyToMap, channel: &mut Channel) -> Result<usize, String> {
    let page = ready.map(Visibility::Shared).map_err(text)?;
    let address = page.address();
    channel.use_userd(page, ready.linear);
    Ok(address)
}

/// Children with the memory of the program submit through its mapping, and it sleeps.
fn clone_vm() -> Result<(), String> {
    let (client, mut channels) = open(u32::try_from(CHILDREN).unwrap_or(1), 4)?;
    // Each has an area of its own, in the memory of all.
    let mut children = Vec::new();
    for mut channel in channels.drain(..) {
        let ready = ready(&client, &channel)?;
        let address = map(&ready, &mut channel)?;
        let child = start(libc::CLONE_VM, move || keep_busy(&mut channel, LIFE))?;
        children.push((child, address, ready));
    }
    for (child, address, _) in &children {
        let at = Mapped::own(*address);
        at.tell();
        let pid = u32::try_from(child.as_raw()).unwrap_or(0);
        Mapped { pid, ..at }.tell();
    }
    println!("{COMPLETE}");
    std::thread::sleep(LIFE);
    Ok(())
}

/// A child of `vfork` maps the page and submits; the program waits for it in `vfork`. On 340 only the
/// process that has allocated may map: there the child has its parent's mapping.
fn vfork() -> Result<(), String> {
    let (client, mut channels) = open(1, DEPTH)?;
    let mut channel = channels.pop().ok_or("no channel")?;
    let ready = ready(&client, &channel)?;
    let before = map(&ready, &mut channel)?;
    start(libc::CLONE_VM | libc::CLONE_VFORK, move || {
        let address = map(&ready, &mut channel).unwrap_or(before);
        Mapped::own(address).tell();
        println!("{COMPLETE}");
        keep_busy(&mut channel, LIFE);
    })?;
    drop(client);
    Ok(())
}

/// Fresh children with the memory and the files of the program allocate a channel, map its page and
/// end; the program submits to it for a while.
fn clone_files() -> Result<(), String> {
    type Made = Option<Result<(Client, Vec<Channel>), String>>;
    let since = Instant::now();
    while since.elapsed() < LIFE {
        let made: &'static mut Made = Box::leak(Box::new(None));
        let at = std::ptr::from_mut(made).expose_provenance();
        let child = start(libc::CLONE_VM | libc::CLONE_FILES, move || {
            let made = std::ptr::with_exposed_provenance_mut::<Made>(at);
            // SAFETY: the program waits for the child before it looks there.
            unsafe { made.write_volatile(Some(open(1, DEPTH))) };
        })?;
        waitpid(child, None).map_err(|errno| errno.to_string())?;
        let made = std::ptr::with_exposed_provenance_mut::<Made>(at);
        // SAFETY: the child has ended, and nothing else has the address.
        let made = unsafe { Box::from_raw(made) };
        let (_client, mut channels) = made.ok_or("the child has not run")??;
        let channel = channels.first_mut().ok_or("no channel")?;
        keep_busy(channel, TURN);
        while channel.completed() != channel.sequence() {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// The address of a name that needs no file system.
fn named(words: &[String]) -> Result<SocketAddr, String> {
    let name = words.first().ok_or("want a name")?;
    SocketAddr::from_abstract_name(name.as_bytes()).map_err(|error| error.to_string())
}

/// Sends a file with some bytes.
fn send_file(stream: &UnixStream, file: &File, bytes: &[u8]) -> Result<(), String> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    ensure!(
        control.push(SendAncillaryMessage::ScmRights(&files)),
        "no room for a file"
    );
    let sent = sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::empty(),
    );
    sent.map(drop).map_err(|errno| format!("sendmsg: {errno}"))
}

/// What [`send_file`] sent.
fn receive_file(stream: &UnixStream, bytes: &mut [u8]) -> Result<File, String> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let wanted = bytes.len();
    let slices = &mut [IoSliceMut::new(bytes)];
    let message = recvmsg(stream, slices, &mut control, RecvFlags::empty());
    let message = message.map_err(|errno| format!("recvmsg: {errno}"))?;
    ensure!(message.bytes == wanted, "{} bytes came", message.bytes);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message {
            return files.next().map(File::from).ok_or("no file".to_owned());
        }
    }
    Err("no file came".to_owned())
}

/// Takes a prepared file from `give`, maps it, and stores what `give` says.
fn take(words: &[String]) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let listener = UnixListener::bind_addr(&named(words)?).map_err(said)?;
    let (mut stream, _) = listener.accept().map_err(said)?;
    let mut bytes = [0; 16];
    let file = receive_file(&stream, &mut bytes)?;
    let word = |at: usize| {
        let bytes: Option<[u8; 8]> = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let (linear, offset) = (word(0), word(8));
    let ready = ReadyToMap {
        file,
        linear,
        length: abi::PAGE_SIZE,
        offset,
    };
    let Ok(page) = ready.map(Visibility::Shared) else {
        println!("{REFUSED}");
        return Ok(());
    };
    Mapped::own(page.address()).tell();
    println!("{COMPLETE}");
    // CAST: less than a page.
    let put = (linear % abi::PAGE_SIZE + USERD_GP_PUT) as usize;
    let mut value = [0; 4];
    while stream.read_exact(&mut value).is_ok() {
        page.publish(put, u32::from_le_bytes(value));
    }
    Ok(())
}

/// What `take` prints if it may not map the page of another process.
const REFUSED: &str = "may not map";

/// Passes the prepared file of its page to `take`, maps nothing itself, and says what to store.
fn give(words: &[String]) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let (client, mut channels) = open(1, DEPTH)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    channel.unmap_userd();
    let ready = ready(&client, channel)?;
    let mut stream = UnixStream::connect_addr(&named(words)?).map_err(said)?;
    let bytes = [ready.linear.to_le_bytes(), ready.offset.to_le_bytes()].concat();
    send_file(&stream, &ready.file, &bytes)?;
    let since = Instant::now();
    while since.elapsed() < LIFE {
        if channel.sequence().wrapping_sub(channel.completed()) < DEPTH {
            let sequence = channel.prepare(KERNEL_NS, false);
            let put = sequence % (channel.depth_max() + 1);
            // `take` stores them one after the other; while it is throttled they wait in the socket.
            if stream.write_all(&put.to_le_bytes()).is_err() {
                return Ok(());
            }
        } else {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

fn children_with_the_memory_of_the_owner_gain_nothing() -> Verdict {
    check("clone-vm")
}

fn child_of_vfork_gains_nothing() -> Verdict {
    check("vfork")
}

fn channels_of_children_that_have_ended_are_charged() -> Verdict {
    check_totals("clone-files", "process")
}

/// Whether the driver maps a page for another process than the one that allocated its channel.
fn passes() -> bool {
    branch() != 340
}

fn page_passed_to_another_process_gains_nothing() -> Verdict {
    match passes() {
        true => check_all(&[(USER, "take same"), (USER, "give same")]),
        false => check_refused(),
    }
}

fn page_passed_to_another_user_gains_nothing() -> Verdict {
    match passes() {
        true => check_all(&[(USER + 1, "take other"), (USER, "give other")]),
        false => check_refused(),
    }
}

/// Checks that the driver itself does not map the page.
fn check_refused() -> Verdict {
    let stage = Stage::set(&model(LAZY), "enforce=1")?;
    let mut taker = Program::start("take refused")?;
    std::thread::sleep(Duration::from_millis(200));
    let giver = Program::start("give refused")?;
    let line = taker.line(super::SOON)?;
    ensure!(line == REFUSED, "it said {line:?}");
    drop((taker, giver));
    check_nothing_left(&stage)?;
    stage.teardown()
}

fn no_process_that_shares_a_throttled_page_has_an_entry() -> Verdict {
    let stage = Stage::set(&model(LAZY), "enforce=1")?;
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    for words in ["clone-vm", "vfork"] {
        let mut program = Program::start(words)?;
        let mapped = mapped(&mut program)?;
        println!("# {words}");
        check_no_entry_while_throttled(&stage, program.pid(), &mapped)?;
    }
    for uid in [USER, USER + 1].into_iter().filter(|_| passes()) {
        let mut taker = Program::start_as(uid, &format!("take {uid}"))?;
        std::thread::sleep(Duration::from_millis(200));
        let giver = Program::start(&format!("give {uid}"))?;
        let mapped = mapped(&mut taker)?;
        // A process of another user does not pay for what a process maps.
        let owner = if uid == USER { &giver } else { &taker };
        println!("# passed to user {uid}");
        check_no_entry_while_throttled(&stage, owner.pid(), &mapped)?;
    }
    drop(other);
    check_nothing_left(&stage)?;
    stage.teardown()
}

fn text(error: throttle::error::Error) -> String {
    error.to_string()
}
