// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The `unsafe` code that every build of the load generator has: ioctl, mmap, volatile
//! access, fork.

use loga::rm;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{fence, Ordering};

/// Types that are any bit pattern of their size, without padding.
///
/// # Safety
///
/// `repr(C)`, integers only, no implicit padding.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        $(
            // SAFETY: repr(C), integers only; the ABI module spells out padding and asserts sizes.
            unsafe impl Plain for $type {}
        )*
    };
}

plain!(
    rm::Free,
    rm::AllocMemory,
    rm::AllocMemoryFd,
    rm::Alloc,
    rm::AllocLong,
    rm::MapMemory,
    rm::MapMemoryFd,
    rm::UnmapMemory,
    rm::Control,
    rm::MapMemoryDma,
    rm::UnmapMemoryDma,
    rm::GetEventData,
    rm::UnixEvent,
    rm::OsEvent,
    rm::EventParams,
    rm::ApiVersion,
    rm::RegisterFd,
    rm::Xfer,
    rm::ScheduleParams,
    rm::ChannelParams,
    rm::DeviceParams,
    [rm::CardInfo; rm::CARDS_MAX],
    (),
);

/// Bytes of a plain value.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` has no padding, so all size_of::<T>() bytes are initialised; same lifetime.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A plain value from the start of `bytes`; missing bytes are zero.
pub fn value_of<T: Plain>(bytes: &[u8]) -> T {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: both ranges are `length` bytes long and distinct.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast(), length) };
    // SAFETY: `Plain` accepts every bit pattern, and all bytes are written.
    unsafe { value.assume_init() }
}

/// Memory the driver may read and write during a call, as large as any call may be.
type Scratch = [u64; rm::IOCTL_SIZE_MAX as usize / 8];

/// Memory of one call: the structure, what it points at, and what that points at.
struct Arena {
    areas: Box<[Scratch; 3]>,
}

impl Arena {
    fn new() -> Self {
        let areas = vec![[0; rm::IOCTL_SIZE_MAX as usize / 8]; 3];
        // PANIC: the vector has exactly three elements.
        let areas = areas.into_boxed_slice().try_into().expect("three areas");
        Arena { areas }
    }

    fn address(&mut self, area: usize) -> u64 {
        // CAST: user addresses are 64 bits here.
        self.areas[area].as_mut_ptr() as u64
    }

    fn put(&mut self, area: usize, bytes: &[u8]) {
        assert!(bytes.len() <= size_of::<Scratch>(), "call too large");
        let to = self.areas[area].as_mut_ptr().cast::<u8>();
        // SAFETY: the length was checked against the area; source and area are distinct.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    fn get(&self, area: usize, bytes: &mut [u8]) {
        assert!(bytes.len() <= size_of::<Scratch>(), "call too large");
        let from = self.areas[area].as_ptr().cast::<u8>();
        // SAFETY: the length was checked against the area; target and area are distinct.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }

    fn ioctl(&mut self, fd: BorrowedFd<'_>, request: u32) -> io::Result<i32> {
        let arg = self.address(0) as libc::c_ulong;
        // SAFETY: the driver copies at most 16 KiB at `arg` and at each address a call carries; those
        // are areas of this size (see `call`, `raw`), or values the caller made up, which the driver
        // must check like any other.
        let rc = unsafe { libc::ioctl(fd.as_raw_fd(), request.into(), arg) };
        if rc < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(rc)
        }
    }
}

/// A resource manager call `nr` with a structure and what the structure points at.
///
/// `point` stores the address of the parameters in the structure. Both are updated.
///
/// # Errors
///
/// What the driver's ioctl returned.
pub fn call<T: Plain, P: Plain>(
    fd: BorrowedFd<'_>,
    nr: u32,
    arg: &mut T,
    params: &mut P,
    point: impl FnOnce(&mut T, u64),
) -> io::Result<()> {
    let mut arena = Arena::new();
    point(arg, arena.address(1));
    arena.put(0, bytes_of(arg));
    arena.put(1, bytes_of(params));
    arena.ioctl(fd, rm::request(nr, size_of::<T>()))?;
    let mut bytes = vec![0; size_of::<T>()];
    arena.get(0, &mut bytes);
    *arg = value_of(&bytes);
    let mut bytes = vec![0; size_of::<P>()];
    arena.get(1, &mut bytes);
    *params = value_of(&bytes);
    Ok(())
}

/// Any ioctl with any bytes, for programs that test what a driver does with nonsense.
///
/// The bytes are updated whether the call fails or not, and may be fewer than `request` says.
///
/// # Errors
///
/// What the driver's ioctl returned.
pub fn raw(fd: BorrowedFd<'_>, request: u32, bytes: &mut [u8]) -> io::Result<i32> {
    let mut arena = Arena::new();
    arena.put(0, bytes);
    let result = arena.ioctl(fd, request);
    arena.get(0, bytes);
    result
}

/// As [`raw`], through IOCTL_XFER_CMD: a call `cmd` that claims to be `size` bytes long.
///
/// # Errors
///
/// What the driver's ioctl returned.
pub fn raw_xfer(fd: BorrowedFd<'_>, cmd: u32, size: u32, bytes: &mut [u8]) -> io::Result<i32> {
    let mut arena = Arena::new();
    arena.put(1, bytes);
    let xfer = rm::Xfer {
        cmd,
        size,
        ptr: arena.address(1),
    };
    arena.put(0, bytes_of(&xfer));
    let request = rm::request(rm::nr::XFER_CMD, size_of::<rm::Xfer>());
    let result = arena.ioctl(fd, request);
    arena.get(1, bytes);
    result
}

/// Protection and visibility of a [`Mapping`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Visibility {
    /// Stores reach the device and every process that shares the mapping.
    Shared,
    /// Copy on write; a driver that is watched must not hand out such a mapping.
    Private,
}

/// A mapped range of a device file; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    length: usize,
}

impl Mapping {
    /// Maps `length` bytes from `offset` of the file.
    ///
    /// # Errors
    ///
    /// What mmap returned.
    pub fn new(
        fd: BorrowedFd<'_>,
        length: usize,
        offset: u64,
        visibility: Visibility,
    ) -> io::Result<Self> {
        let flags = match visibility {
            Visibility::Shared => libc::MAP_SHARED,
            Visibility::Private => libc::MAP_PRIVATE,
        };
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address the kernel chooses cannot overlap live memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                fd.as_raw_fd(),
                offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping {
            base: base.cast(),
            length,
        })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the mapping is empty (never: the kernel refuses length 0).
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Where it begins.
    pub fn address(&self) -> usize {
        self.base.expose_provenance()
    }

    fn word(&self, offset: usize) -> *mut u32 {
        // PANIC: an offset outside the mapping is a bug of this program.
        let end = offset.checked_add(4).expect("offset");
        assert!(end <= self.length, "offset {offset:#x}");
        assert!(offset % 4 == 0, "offset {offset:#x}");
        // SAFETY: the offset was checked to lie inside the mapping.
        unsafe { self.base.add(offset) }.cast()
    }

    /// Reads the word at `offset`.
    pub fn read(&self, offset: usize) -> u32 {
        // SAFETY: `word` checked range and alignment; the device may change it at any time, hence
        // volatile.
        unsafe { self.word(offset).read_volatile() }
    }

    /// Writes the word at `offset`.
    pub fn write(&self, offset: usize, value: u32) {
        // SAFETY: as `read`; no reference into the mapping is ever made.
        unsafe { self.word(offset).write_volatile(value) };
    }

    /// Writes the word at `offset` after everything written before is visible to the device.
    pub fn publish(&self, offset: usize, value: u32) {
        fence(Ordering::SeqCst);
        self.write(offset, value);
    }

    /// Reads the word at `offset`; everything the device wrote before it is visible afterwards.
    pub fn observe(&self, offset: usize) -> u32 {
        let value = self.read(offset);
        fence(Ordering::Acquire);
        value
    }
}

// SAFETY: a mapping is an address range of the process; access is volatile and unordered between
// threads, which the users of one channel order among themselves.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, is unmapped once, and no reference to it exists.
        unsafe { libc::munmap(self.base.cast(), self.length) };
    }
}

/// Duplicates the process; `true` in the child, which must end with [`exit_now`].
///
/// # Errors
///
/// What fork returned.
pub fn fork() -> io::Result<Option<i32>> {
    // SAFETY: the programs of this package have one thread, so the child may use everything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// Ends the process without running anything that belongs to the parent.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(code) }
}

/// Ends the calling thread alone, without running anything for it: the others go on.
pub fn end_thread() -> ! {
    // SAFETY: The call takes any number, and does not return.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn value_of_fewer_bytes_is_zero_extended() {
        let free: rm::Free = value_of(&[1, 0, 0, 0, 2]);
        assert_eq!((free.root, free.parent, free.status), (1, 2, 0));
        assert_eq!(bytes_of(&free).len(), 16);
        assert_eq!(bytes_of(&free)[4], 2);
    }

    #[test]
    fn mapping_of_a_file_reads_back_and_checks_range() {
        let zero = File::options()
            .read(true)
            .write(true)
            .open("/dev/zero")
            .expect("/dev/zero");
        let map = Mapping::new(zero.as_fd(), 4096, 0, Visibility::Shared).expect("mmap");
        map.publish(0x8c, 7);
        assert_eq!(map.observe(0x8c), 7);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| map.read(4096))).is_err());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| map.read(2))).is_err());
    }

    #[test]
    fn ioctl_of_a_foreign_file_reports_the_errno() {
        let null = File::open("/dev/null").expect("/dev/null");
        let mut free = rm::Free::default();
        let error = call(null.as_fd(), rm::nr::FREE, &mut free, &mut (), |_, _| ())
            .expect_err("no ioctl there");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
