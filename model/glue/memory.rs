// SPDX-License-Identifier: GPL-2.0

//! Memory that programs, GPU and module share: system memory objects and the card's apertures.

use kernel::bindings;
use kernel::ffi::{c_int, c_ulong, c_void};
use kernel::prelude::*;

#[allow(improper_ctypes)]
extern "C" {
    fn loga_model_vmalloc_user(size: c_ulong) -> *mut c_void;
    // Of the kernel, in `include/linux/vmalloc.h`.
    fn vfree(memory: *const c_void);
    fn remap_vmalloc_range(
        vma: *mut bindings::vm_area_struct,
        memory: *mut c_void,
        page: c_ulong,
    ) -> c_int;
}

/// Page size.
pub const PAGE: u64 = crate::rm::PAGE_SIZE;

/// The word at an offset of `size` bytes; `None` past the end or unaligned.
fn word(address: *mut u8, size: u64, offset: u64) -> Option<*mut u32> {
    let inside = offset % 4 == 0 && offset.checked_add(4)? <= size;
    // CAST: below the size of an allocation or a mapping.
    inside.then_some(address.wrapping_add(offset as usize).cast())
}

/// Zeroed, page-aligned system memory that can be mapped into programs.
///
/// # Invariants
///
/// `address` is a `vmalloc_user` allocation of `size` bytes, owned by this object.
pub struct Memory {
    address: *mut u8,
    size: u64,
}

// SAFETY: The memory is plain bytes, accessed with volatile reads and writes only; freeing it is
// allowed on any thread.
unsafe impl Send for Memory {}
// SAFETY: As above; a program may change the bytes at any time, so no reference to them is made.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates `size` bytes, rounded up to pages. May sleep.
    pub fn new(size: u64) -> Result<Self> {
        let size = size.checked_next_multiple_of(PAGE).ok_or(EINVAL)?;
        // SAFETY: The function accepts any size and returns null on failure.
        let address = unsafe { loga_model_vmalloc_user(usize::try_from(size)?) };
        if address.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Just allocated.
        Ok(Self {
            address: address.cast(),
            size,
        })
    }

    /// Size in bytes, a multiple of the page size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// CPU physical address of the first page, which identifies the object.
    pub fn physical(&self) -> u64 {
        // SAFETY: By the invariant the address is a vmalloc address that is mapped.
        let pfn = unsafe { bindings::vmalloc_to_pfn(self.address.cast()) };
        (pfn as u64) << 12
    }

    /// Reads a word; `None` past the end or unaligned.
    pub fn read(&self, offset: u64) -> Option<u32> {
        let word = self.word(offset)?;
        // SAFETY: `word` checked that four aligned bytes lie inside the allocation.
        Some(unsafe { word.read_volatile() })
    }

    /// Writes a word; false past the end or unaligned.
    pub fn write(&self, offset: u64, value: u32) -> bool {
        let Some(word) = self.word(offset) else {
            return false;
        };
        // SAFETY: `word` checked that four aligned bytes lie inside the allocation.
        unsafe { word.write_volatile(value) };
        true
    }

    /// Maps the object from `offset` on into a program.
    ///
    /// # Safety
    ///
    /// `vma` is being set up by mmap: it is valid and write-locked.
    pub unsafe fn map(&self, vma: *mut bindings::vm_area_struct, offset: u64) -> Result {
        let page = usize::try_from(offset / PAGE)?;
        // SAFETY: The caller's promise for `vma`; by the invariant the address is a `vmalloc_user`
        // allocation, and the function checks the range against its size.
        let error = unsafe { remap_vmalloc_range(vma, self.address.cast(), page) };
        kernel::error::to_result(error)
    }

    fn word(&self, offset: u64) -> Option<*mut u32> {
        word(self.address, self.size, offset)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: By the invariant this object owns the allocation. Pages that are still mapped
        // into a program carry their own reference.
        unsafe { vfree(self.address.cast()) };
    }
}

/// A physical range mapped uncached, as `ioremap` does and as programs see it.
///
/// # Invariants
///
/// `address` is an `ioremap` mapping of `size` bytes, owned by this object.
pub struct Aperture {
    address: *mut c_void,
    size: u64,
}

// SAFETY: Access is by volatile reads and writes; unmapping is allowed on any thread.
unsafe impl Send for Aperture {}
// SAFETY: As above.
unsafe impl Sync for Aperture {}

impl Aperture {
    /// Maps `size` bytes at a physical address that is reserved for the card.
    pub fn new(physical: u64, size: u64) -> Result<Self> {
        // SAFETY: ioremap accepts any range and returns null if it cannot map it.
        let address = unsafe { bindings::ioremap(physical, usize::try_from(size)?) };
        if address.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Just mapped.
        Ok(Self { address, size })
    }

    /// Reads a word; `None` past the end or unaligned.
    pub fn read(&self, offset: u64) -> Option<u32> {
        let word = self.word(offset)?;
        // SAFETY: `word` checked that four aligned bytes lie inside the mapping.
        Some(unsafe { word.read_volatile() })
    }

    /// Writes a word; ignored past the end or unaligned.
    pub fn write(&self, offset: u64, value: u32) {
        if let Some(word) = self.word(offset) {
            // SAFETY: `word` checked that four aligned bytes lie inside the mapping.
            unsafe { word.write_volatile(value) };
        }
    }

    /// Fills the range with one byte.
    pub fn fill(&self, byte: u8) {
        // SAFETY: By the invariant the whole range is mapped.
        unsafe { bindings::memset_io(self.address, c_int::from(byte), self.size as usize) };
    }

    fn word(&self, offset: u64) -> Option<*mut u32> {
        word(self.address.cast(), self.size, offset)
    }
}

impl Drop for Aperture {
    fn drop(&mut self) {
        // SAFETY: By the invariant this object owns the mapping.
        unsafe { bindings::iounmap(self.address) };
    }
}
