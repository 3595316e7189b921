// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Signs of a kernel report in a line of the kernel's log.
//!
//! One table for the runner, which reads the whole log, and for the guest's tests, which read it
//! during a test.

/// Words of the first line of a report, wherever they stand in it.
const WORDS: &[&str] = &[
    // Oopses, and everything that ends in WARN or BUG; KASAN, KCSAN, the scheduler, the soft
    // lockup detector and lockdep's wait contexts begin with BUG too.
    "Kernel panic",
    "Oops",
    "BUG:",
    "kernel BUG at",
    "WARNING:",
    "general protection fault",
    "panicked at",
    "hard LOCKUP",
    // Hung tasks and stalls.
    "INFO: task",
    "blocked for more than",
    "INFO: rcu",
    "rcu: INFO:",
    "self-detected stall",
    // Locks.
    "INFO: possible",
    "INFO: trying to register non-static key",
    "possible circular locking",
    "possible recursive locking",
    "inconsistent lock state",
    "lock held when returning to user space",
    "suspicious RCU usage",
    "sleeping function called",
    "scheduling while atomic",
    "lockdep is turned off",
    "turning off the locking correctness validator",
    // Memory and objects.
    "KASAN:",
    "UBSAN:",
    "ODEBUG:",
    "suspected memory leaks",
    "Kernel memory leak detector disabled",
    "pagealloc: memory corruption",
    "pagealloc: single bit error",
    "list_add corruption",
    "list_del corruption",
];

/// The beginning of a report of the slab allocator: `BUG kmalloc-64 (Tainted: G): Poison
/// overwritten`.
const SLAB: &str = "BUG ";

/// Words of lines that match the table and are not reports.
const HARMLESS: &[&str] = &[
    "ODEBUG: selftest passed",
    // The module loader warns so when an allocation fails that is not the module's: the tests that
    // let every allocation of insmod fail meet it. Source: `kernel/jump_label.c`.
    "jump_label_module_notify+",
];

/// Whether a line of the log, without its stamp, is a report.
pub fn complains(body: &str) -> bool {
    let harmless = HARMLESS.iter().any(|word| body.contains(word));
    let word = WORDS.iter().any(|word| body.contains(word));
    !harmless && (word || body.trim_start().starts_with(SLAB))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first lines of reports as Linux 7.3 prints them.
    const REPORTS: &[&str] = &[
        "BUG: unable to handle page fault for address: 0000000000001000",
        "Kernel panic - not syncing: Attempted to kill init!",
        "WARNING: CPU: 1 PID: 71 at kernel/rcu/tree.c:1",
        "WARNING: possible circular locking dependency detected",
        "WARNING: possible recursive locking detected",
        "WARNING: inconsistent lock state",
        "WARNING: possible irq lock inversion dependency detected",
        "WARNING: bad unlock balance detected!",
        "WARNING: held lock freed!",
        "WARNING: lock held when returning to user space!",
        "WARNING: suspicious RCU usage",
        "[ BUG: Invalid wait context ]",
        "BUG: sleeping function called from invalid context at mm/slub.c:1",
        "BUG: scheduling while atomic: loga-poller/71/0x00000002",
        "BUG: workqueue leaked atomic, lock or RCU: kworker/0:1[9]",
        "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [loga:12]",
        "INFO: task loga:12 blocked for more than 120 seconds.",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "INFO: rcu_tasks detected stalls on tasks:",
        "INFO: lockdep is turned off.",
        "BUG: MAX_LOCKDEP_ENTRIES too low!",
        "Oops: general protection fault, 0000 [#1]",
        "BUG: KASAN: slab-use-after-free in loga_x+0x1/0x2",
        "BUG: KCSAN: data-race in loga_x / loga_y",
        "UBSAN: array-index-out-of-bounds in mm/x.c:1:2",
        "ODEBUG: free active (active state 0) object: 0 object type: hrtimer hint: 0x0",
        "BUG kmalloc-64 (Not tainted): Poison overwritten",
        "BUG loga (Tainted: G O): Objects remaining on __kmem_cache_shutdown()",
        "kmemleak: 5 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        "pagealloc: memory corruption",
        "list_del corruption. prev->next should be 0, but was 1",
    ];

    #[test]
    fn reports_are_recognised() {
        for line in REPORTS {
            assert!(complains(line), "{line}");
        }
    }

    #[test]
    fn ordinary_lines_are_not() {
        for line in [
            "loga: attached",
            "Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar",
            "kasan: KernelAddressSanitizer initialized (generic)",
            "kmemleak: Kernel memory leak detector initialized (mem pool available: 15000)",
            "ODEBUG: selftest passed",
            "WARNING: kernel/jump_label.c:829 at jump_label_module_notify+0x1f7/0x220, CPU#0: x/71",
            "FAULT_INJECTION: forcing a failure.",
            "CONFIG_DEBUG and others",
        ] {
            assert!(!complains(line), "{line}");
        }
    }
}
