// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A program that turns one call of the driver into another while it is made.

use super::programs::{first, keep_busy, open, DEPTH, LIFE};
use loga::rm as abi;
use loga::rm::nr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use throttle::rm::Client;

/// The outer structure of a call in words, as two threads see it: command and size, address.
type Outer = [AtomicU64; 2];

/// Long calls of the driver; meanwhile another thread turns their argument into an RM_FREE of
/// the program's own channel.
pub(super) fn forge() -> Result<(), String> {
    let (client, mut channels) = open(1, DEPTH)?;
    let channel = first(&mut channels)?;
    let free: &'static abi::Free = Box::leak(Box::new(abi::Free {
        root: client.root(),
        parent: client.device(),
        object: channel.handle(),
        status: 0,
    }));
    let outer: &'static Outer = Box::leak(Box::default());
    let inside: &'static AtomicBool = Box::leak(Box::default());
    std::thread::spawn(move || loop {
        if inside.swap(false, Ordering::AcqRel) {
            std::thread::sleep(Duration::from_micros(100));
            point(outer, nr::FREE, free);
        }
        std::thread::sleep(Duration::from_micros(50));
    });
    std::thread::spawn(move || call_slowly(&client, outer, inside));
    keep_busy(channel, LIFE);
    Ok(())
}

/// Makes a call of a structure.
fn point<T>(outer: &Outer, number: u32, argument: &T) {
    outer[1].store(std::ptr::from_ref(argument) as u64, Ordering::SeqCst);
    let size = size_of::<T>() as u64;
    outer[0].store(u64::from(number) | size << 32, Ordering::SeqCst);
}

/// Has the driver allocate much memory in a loop; announces each call.
fn call_slowly(client: &Client, outer: &'static Outer, inside: &AtomicBool) {
    const BYTES: u64 = 8 << 20;
    let request = abi::request(nr::XFER_CMD, size_of::<abi::Xfer>());
    for handle in 0x7000_0001.. {
        let memory = Box::new(abi::AllocMemoryFd {
            memory: abi::AllocMemory {
                root: client.root(),
                parent: client.device(),
                handle,
                class: abi::class::MEMORY_SYSTEM,
                limit: BYTES - 1,
                ..Default::default()
            },
            fd: -1,
            pad: 0,
        });
        point(outer, nr::ALLOC_MEMORY, &*memory);
        inside.store(true, Ordering::Release);
        // SAFETY: the structure has the length that the request says; it and what it points to
        // live until the end of the call.
        unsafe {
            nix::libc::ioctl(
                client.ctl().as_raw_fd(),
                request.into(),
                std::ptr::from_ref(outer),
            )
        };
        // The memory exists only if the driver saw the original argument.
        let _ = client.free(client.device(), handle);
        std::thread::sleep(Duration::from_millis(20));
    }
}
