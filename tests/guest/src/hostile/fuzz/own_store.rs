// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A store of the program itself to a page that may not be there: the signal that tells of it
//! becomes an error.

use nix::errno::Errno;
use nix::libc;
use std::arch::global_asm;

// One instruction stores; the handler goes on at `loga_store_failed` if it faults.
global_asm!(
    ".globl loga_store",
    ".globl loga_store_failed",
    "loga_store:",
    "mov dword ptr [rdi], esi",
    "xor eax, eax",
    "ret",
    "loga_store_failed:",
    "mov eax, 1",
    "ret",
);

extern "C" {
    /// Stores a word; 0, or 1 if it could not.
    fn loga_store(at: *mut u32, word: u32) -> i32;
    /// Where a store goes on that could not: it is not called.
    fn loga_store_failed();
}

/// Has stores that fail go on with an error. For this process and those that it forks.
pub(super) fn prepare() -> Result<(), Errno> {
    // SAFETY: all zeros is a valid value of the structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = go_on as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the structure lives during the call; the handler is safe to be called anywhere,
        // see there.
        let rc = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        Errno::result(rc)?;
    }
    Ok(())
}

/// Goes on where a store ends that failed; any other fault comes again, and ends the process.
unsafe extern "C" fn go_on(
    signal: libc::c_int,
    _: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel passes the state of the thread, which it takes over when this returns.
    let at = unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
    if *at == loga_store as *const () as i64 {
        *at = loga_store_failed as *const () as i64;
    } else {
        // SAFETY: sets the signal's default action, which a handler may do.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Stores a word.
///
/// # Errors
///
/// `EFAULT`: there is no page that can be stored to.
///
/// # Safety
///
/// No Rust object lies there, and [`prepare`] was called.
pub(super) unsafe fn store(at: *mut u32, word: u32) -> Result<(), Errno> {
    // SAFETY: by the caller's promise nothing else uses the word, and a fault is handled.
    match unsafe { loga_store(at, word) } {
        0 => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}
