// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The raw calls of `/dev/loga`, so that tests can make wrong ones too.

use loga::uapi;
use loga::uapi::Event;
use nix::errno::Errno;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The open control device.
#[derive(Debug)]
pub(crate) struct Calls(File);

/// Arguments of calls.
///
/// # Safety
///
/// `repr(C)`, made of integers only: any bit pattern is valid.
unsafe trait Argument {}

// SAFETY: (all) the structures of `loga::uapi` are made of integers.
unsafe impl Argument for uapi::SetShare {}
// SAFETY: As above.
unsafe impl Argument for uapi::Configure {}
// SAFETY: As above.
unsafe impl Argument for uapi::Subscribe {}
// SAFETY: As above.
unsafe impl Argument for uapi::ReadTotals {}
// SAFETY: As above.
unsafe impl Argument for uapi::ListShares {}
// SAFETY: As above.
unsafe impl Argument for uapi::SetSpec {}
// SAFETY: As above.
unsafe impl Argument for uapi::ListSpecs {}
// SAFETY: As above.
unsafe impl Argument for uapi::Claim {}
// SAFETY: As above.
unsafe impl Argument for uapi::Snapshot {}
// SAFETY: As above.
unsafe impl Argument for uapi::Header {}

/// The call that sets one knob.
pub(crate) fn knob(name: &str, value: &str) -> Result<uapi::Configure, String> {
    let mut configure = uapi::Configure::default();
    let set = configure.set(name, value);
    set.map_err(|error| error.to_string())?;
    Ok(configure)
}

impl AsRawFd for Calls {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Calls {
    /// Opens the device; reading does not wait.
    pub(crate) fn open() -> Result<Self, String> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(uapi::DEVICE_PATH)
            .map(Calls)
            .map_err(|error| format!("{}: {error}", uapi::DEVICE_PATH))
    }

    /// Makes a call with an argument that may be another call's.
    fn call<T: Argument>(&self, number: u32, argument: &mut T) -> Result<(), Errno> {
        assert!(uapi::arg_size(number) <= size_of::<T>());
        // SAFETY: the kernel reads and writes as many bytes as the number says, which the argument
        // has; the callers below put no address into it but those of tables that they lend.
        let rc = unsafe { nix::libc::ioctl(self.0.as_raw_fd(), number.into(), &raw mut *argument) };
        Errno::result(rc).map(drop)
    }

    /// Sets or clears; fills in version and size.
    pub(crate) fn set_share(&self, set: &uapi::SetShare) -> (Result<(), Errno>, uapi::Refusal) {
        let mut set = *set;
        (set.version, set.size) = header::<uapi::SetShare>();
        let result = self.call(uapi::IOC_SET_SHARE, &mut set);
        (result, set.refusal)
    }

    /// Sets or clears priority, mode and reserve; fills in version and size.
    pub(crate) fn set_spec(&self, set: &uapi::SetSpec) -> (Result<(), Errno>, uapi::Refusal) {
        let mut set = *set;
        (set.version, set.size) = header::<uapi::SetSpec>();
        let result = self.call(uapi::IOC_SET_SPEC, &mut set);
        (result, set.refusal)
    }

    /// The specs that are set.
    pub(crate) fn specs(&self) -> Result<Vec<uapi::ListedSpec>, Errno> {
        let (version, size) = header::<uapi::ListSpecs>();
        let mut specs = vec![uapi::ListedSpec::default(); 40];
        let mut list = uapi::ListSpecs {
            version,
            size,
            count: 40,
            specs: specs.as_mut_ptr() as u64,
            ..Default::default()
        };
        self.call(uapi::IOC_LIST_SPECS, &mut list)?;
        specs.truncate(list.count as usize);
        Ok(specs)
    }

    /// Claims, or takes claims back; fills in version and size. Returns the argument as the kernel
    /// left it.
    pub(crate) fn claim(&self, claim: &uapi::Claim) -> (Result<(), Errno>, uapi::Claim) {
        let mut claim = *claim;
        (claim.version, claim.size) = header::<uapi::Claim>();
        let result = self.call(uapi::IOC_CLAIM, &mut claim);
        (result, claim)
    }

    /// Sets knobs; fills in version and size.
    pub(crate) fn configure(&self, knobs: &uapi::Configure) -> (Result<(), Errno>, uapi::Refusal) {
        let mut knobs = *knobs;
        (knobs.version, knobs.size) = header::<uapi::Configure>();
        let result = self.call(uapi::IOC_CONFIGURE, &mut knobs);
        (result, knobs.refusal)
    }

    /// Subscribes; fills in version and size.
    pub(crate) fn subscribe(&self, mask: u64) -> Result<(), Errno> {
        let (version, size) = header::<uapi::Subscribe>();
        let mut what = uapi::Subscribe {
            version,
            size,
            gpu: uapi::ALL_GPUS,
            mask,
            ..Default::default()
        };
        self.call(uapi::IOC_SUBSCRIBE, &mut what)
    }

    /// Totals of a kind.
    pub(crate) fn totals(&self, kind: u32, flags: u32) -> Result<Vec<uapi::Total>, Errno> {
        let (version, size) = header::<uapi::ReadTotals>();
        let mut totals = vec![uapi::Total::default(); 300];
        let mut read = uapi::ReadTotals {
            version,
            size,
            flags,
            kind,
            count: 300,
            totals: totals.as_mut_ptr() as u64,
            ..Default::default()
        };
        self.call(uapi::IOC_READ_TOTALS, &mut read)?;
        totals.truncate(read.count as usize);
        Ok(totals)
    }

    /// The shares that are set.
    pub(crate) fn shares(&self) -> Result<Vec<uapi::Share>, Errno> {
        let (version, size) = header::<uapi::ListShares>();
        let mut shares = vec![uapi::Share::default(); 600];
        let mut list = uapi::ListShares {
            version,
            size,
            count: 600,
            shares: shares.as_mut_ptr() as u64,
            ..Default::default()
        };
        self.call(uapi::IOC_LIST_SHARES, &mut list)?;
        shares.truncate(list.count as usize);
        Ok(shares)
    }

    /// Calls with the number of a snapshot and this header; the kernel's answer and header.
    pub(crate) fn with_header(&self, header: uapi::Header) -> (Result<(), Errno>, uapi::Header) {
        let mut snapshot = uapi::Snapshot {
            version: header.version,
            size: header.size,
            ..Default::default()
        };
        let result = self.call(uapi::IOC_SNAPSHOT, &mut snapshot);
        let (version, size) = (snapshot.version, snapshot.size);
        (result, uapi::Header { version, size })
    }

    /// Calls with the number of a snapshot of another size.
    pub(crate) fn with_size(&self, size: u32) -> Result<(), Errno> {
        let number = (uapi::IOC_SNAPSHOT & !(0x3fff << 16)) | (size << 16);
        self.call(number, &mut uapi::Snapshot::default())
    }

    /// The events not read yet.
    pub(crate) fn events(&self) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        loop {
            let mut bytes = [0u8; 4 * size_of::<Event>()];
            match (&self.0).read(&mut bytes) {
                Ok(read) => {
                    let records = bytes[..read].chunks_exact(size_of::<Event>());
                    // SAFETY: each chunk has the size of a record, and any bit pattern is one.
                    events.extend(
                        records.map(|chunk| unsafe {
                            chunk.as_ptr().cast::<Event>().read_unaligned()
                        }),
                    );
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(events),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Reads into a buffer of `len` bytes.
    pub(crate) fn read(&self, len: usize) -> Result<usize, Errno> {
        (&self.0)
            .read(&mut vec![0; len])
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    }

    /// Whether an event can be read.
    pub(crate) fn is_readable(&self) -> Result<bool, Errno> {
        use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
        use std::os::fd::AsFd;
        let mut files = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut files, PollTimeout::ZERO).map(|ready| ready == 1)
    }
}

/// Version and size that are right for an argument.
fn header<T>() -> (u32, u32) {
    // CAST: structures of some hundred bytes.
    (uapi::VERSION, size_of::<T>() as u32)
}

/// Runs `act` in a thread of this process that is user `uid` and has no capabilities.
pub(crate) fn as_user<T: Send>(
    uid: u32,
    act: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    in_thread(|| {
        become_user(uid)?;
        act()
    })
}

/// Runs `act` in a thread of this process.
fn in_thread<T: Send>(act: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let ended = scope.spawn(act).join();
        ended.map_err(|_| "a thread of other rights panicked".to_string())?
    })
}

/// Runs `act` in a thread of this process that stays user 0, without any capability.
pub(crate) fn without_capabilities<T: Send>(
    act: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    in_thread(|| {
        // Version 3 of the interface, of the calling thread; two sets of 64 bits each, all empty.
        let header = [0x2008_0522_u32, 0];
        let none = [0u32; 6];
        // SAFETY: the kernel reads both arrays, which have the lengths of version 3.
        let rc =
            unsafe { nix::libc::syscall(nix::libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
        if rc != 0 {
            return Err(format!("capset: {}", Errno::last()));
        }
        act()
    })
}

/// Gives up being root, in this thread only.
pub(crate) fn become_user(uid: u32) -> Result<(), String> {
    // SAFETY: a bare system call on numbers.
    let rc = unsafe { nix::libc::syscall(nix::libc::SYS_setresuid, uid, uid, uid) };
    match rc {
        0 => Ok(()),
        _ => Err(format!("setresuid {uid}: {}", Errno::last())),
    }
}

/// Becomes another user, then another program; returns only if that fails.
///
/// What the standard library does for a child of another user needs sockets, which the machine's
/// kernel does not have.
pub(crate) fn run_as(uid: u32, command: &[String]) -> String {
    let Some((program, arguments)) = command.split_first() else {
        return "no program".to_string();
    };
    if let Err(reason) = become_user(uid) {
        return reason;
    }
    let error = Command::new(program).args(arguments).exec();
    format!("{program}: {error}")
}
