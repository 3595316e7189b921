// SPDX-License-Identifier: GPL-2.0

//! Declarations of `shim.c` and `process.c`, and the few values that every unsafe file shares.

use crate::share::MAX_LEVELS;
use kernel::bindings;
use kernel::prelude::*;

/// Most GPUs that LoGA follows: the length of `loga_poller_cpu` in `shim.c`.
pub(crate) const MAX_GPUS: usize = crate::compatibility::table::MAX_GPUS;

/// The answer of a wait whose time is over. The `kernel` crate names it from Linux 7.3 on only, like
/// the next.
// CAST: a small number.
pub(crate) const TIMED_OUT: c_int = -(bindings::ETIME as c_int);

/// The error of a driver or a GPU that LoGA does not follow.
pub(crate) fn not_supported() -> Error {
    // CAST: a small number.
    Error::from_errno(-(bindings::EOPNOTSUPP as c_int))
}

/// `unlocked_ioctl` of a driver: `loga_ioctl_t` of `shim.h`.
pub(crate) type Ioctl = unsafe extern "C" fn(*mut bindings::file, c_uint, usize) -> c_long;

/// `struct loga_identity` of `shim.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct RawIdentity {
    pub(crate) key: u64,
    pub(crate) cgroup: u64,
    pub(crate) above: [u64; MAX_LEVELS],
    pub(crate) uid: u32,
    reserved: u32,
}

/// `struct loga_card` of `shim.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Card {
    pub(crate) bar0: u64,
    pub(crate) domain: u32,
    pub(crate) minor: u32,
    pub(crate) bus: u8,
    pub(crate) slot: u8,
    reserved: [u8; 6],
}

// LOGA_LEVELS of `shim.h`.
const _: () = assert!(MAX_LEVELS == 16);

#[expect(
    improper_ctypes,
    reason = "the structures are the kernel's own, passed by pointer only"
)]
extern "C" {
    pub(crate) static loga_poller_cpu: [c_int; MAX_GPUS];
    pub(crate) static loga_poller_cpus: c_uint;

    pub(crate) fn loga_attach_ready() -> bool;
    pub(crate) fn loga_refusals_forget();
    pub(crate) fn loga_refusals_add(line: *const c_char);
    pub(crate) fn loga_open_node(major: c_uint, minor: c_uint) -> *mut bindings::file;
    pub(crate) fn loga_close_node(file: *mut bindings::file);
    pub(crate) fn loga_ask_cards(
        control: *mut bindings::file,
        ioctl: Ioctl,
        cards: *mut Card,
        room: c_uint,
    ) -> c_int;
    pub(crate) fn loga_in_module_data(owner: *const bindings::module, addr: *const c_void) -> bool;
    pub(crate) fn loga_in_module_text(owner: *const bindings::module, addr: *const c_void) -> bool;
    pub(crate) fn loga_module_is_live(owner: *const bindings::module) -> bool;
    pub(crate) fn loga_module_name(owner: *const bindings::module) -> *const c_char;
    pub(crate) fn loga_module_version(owner: *const bindings::module) -> *const c_char;
    pub(crate) fn loga_hold(driver: *const bindings::module);
    pub(crate) fn loga_unhold(driver: *const bindings::module);
    pub(crate) fn loga_exchange_pointer(
        slot: *mut *mut c_void,
        old: *mut c_void,
        new: *mut c_void,
    ) -> bool;
    pub(crate) fn loga_does_nothing() -> *mut c_void;
    pub(crate) fn loga_synchronize_rcu_tasks();
    pub(crate) fn loga_sleep_killable(ms: c_uint) -> bool;
    pub(crate) fn loga_driver_of(device: *const bindings::pci_dev) -> *const bindings::module;
    pub(crate) fn loga_device_lock(device: *mut bindings::pci_dev);
    pub(crate) fn loga_device_unlock(device: *mut bindings::pci_dev);
    pub(crate) fn loga_notices_begin() -> c_int;
    pub(crate) fn loga_notices_end();

    pub(crate) fn loga_thread_bind_again(task: *mut bindings::task_struct, cpu: c_uint);
    pub(crate) fn loga_cpu_online(cpu: c_uint) -> bool;
    fn loga_random() -> u64;
    pub(crate) fn loga_pci_domain(device: *const bindings::pci_dev) -> u32;

    pub(crate) fn loga_current_tgid() -> *mut bindings::pid;
    pub(crate) fn loga_process_identity(
        tgid: *mut bindings::pid,
        identity: *mut RawIdentity,
    ) -> bool;
    pub(crate) fn loga_process_ancestors(
        tgid: *mut bindings::pid,
        keys: *mut u64,
        most: u32,
    ) -> u32;
    pub(crate) fn loga_find_tgid(nr: c_int) -> *mut bindings::pid;
    pub(crate) fn loga_file_user(file: *mut bindings::file, wanted: *const bindings::pid) -> c_int;
    pub(crate) fn loga_pid_of_key(key: u64) -> c_int;
    pub(crate) fn loga_user_of(uid: u32) -> u32;
    pub(crate) fn loga_cgroup_place(id: u64, identity: *mut RawIdentity) -> bool;
    pub(crate) fn loga_cgroup_is_gone(id: u64) -> bool;
    pub(crate) fn loga_caller_cgroup_root() -> u64;
    pub(crate) fn loga_caller_user() -> u32;
    pub(crate) fn loga_caller_nice() -> c_int;
    pub(crate) fn loga_caller_may_change() -> bool;
    pub(crate) fn loga_caller_reads_all() -> bool;
    pub(crate) fn loga_caller_may_lower(tgid: *mut bindings::pid) -> bool;
    pub(crate) fn loga_process_comm(tgid: *mut bindings::pid, buf: *mut u8);
    pub(crate) fn loga_process_cpu_time(tgid: *mut bindings::pid) -> u64;
    pub(crate) fn loga_get_pid(pid: *mut bindings::pid);
    pub(crate) fn loga_pid_number(tgid: *mut bindings::pid) -> c_int;

    pub(crate) fn loga_thread_sleep(wake: *const u32, deadline_ns: u64);
    pub(crate) fn loga_thread_set_fifo(task: *mut bindings::task_struct);
    pub(crate) fn loga_others_runnable() -> bool;
    pub(crate) fn loga_thread_sleep_ns(ns: u64);
    pub(crate) fn loga_preempt_disable();
    pub(crate) fn loga_stay();
    pub(crate) fn loga_stay_no_more();
    pub(crate) fn loga_need_resched() -> bool;
    pub(crate) fn loga_preempt_enable();

    pub(crate) fn loga_release_fault_lock(vmf: *mut bindings::vm_fault);
    pub(crate) fn loga_fault_may_wait(vmf: *const bindings::vm_fault) -> bool;
    pub(crate) fn loga_store_wait(
        queue: *mut bindings::wait_queue_head_t,
        shut: *const u32,
        timeout_ns: u64,
    ) -> c_int;
    pub(crate) fn loga_wake_some(queue: *mut bindings::wait_queue_head_t, count: c_int);
    pub(crate) fn loga_wait(queue: *mut bindings::wait_queue_head_t, empty: *const u32) -> c_int;
    pub(crate) fn loga_zap(vma: *mut bindings::vm_area_struct, addr: usize, len: usize);
    pub(crate) fn loga_hide(vma: *mut bindings::vm_area_struct) -> bool;
    pub(crate) fn loga_unhide(vma: *mut bindings::vm_area_struct);
    pub(crate) fn loga_refill(vma: *mut bindings::vm_area_struct) -> c_int;
    pub(crate) fn loga_try_zap(mapping: *mut bindings::address_space) -> bool;
    pub(crate) fn loga_hold_file(file: *mut bindings::file) -> *mut bindings::file;
    pub(crate) fn loga_start_revocations() -> c_int;
    pub(crate) fn loga_end_revocations();
    pub(crate) fn loga_revocations() -> *mut bindings::workqueue_struct;
    pub(crate) fn loga_map_frame(pfn: usize) -> *mut c_void;
    pub(crate) fn loga_unmap_frame(frame: *mut c_void);
    pub(crate) fn loga_store(
        vma: *mut bindings::vm_area_struct,
        addr: usize,
        frame: *mut c_void,
        data: *const c_void,
        len: u32,
    ) -> c_int;
    pub(crate) fn loga_make_tables(vma: *mut bindings::vm_area_struct, addr: usize) -> c_int;
    pub(crate) fn loga_open_entry(
        vma: *mut bindings::vm_area_struct,
        addr: usize,
        pfn: usize,
        writable: bool,
    ) -> bindings::vm_fault_t;
    pub(crate) fn loga_do_not_copy(vma: *mut bindings::vm_area_struct);
    pub(crate) fn loga_copy_no_more(copy: *mut bindings::vm_area_struct);
    pub(crate) fn loga_init_waitqueue(queue: *mut bindings::wait_queue_head_t);
    pub(crate) fn loga_wake_all(queue: *mut bindings::wait_queue_head_t);

    pub(crate) fn loga_wake_wq_start() -> c_int;
    pub(crate) fn loga_wake_wq_stop();
    pub(crate) fn loga_wake_init(work: *mut bindings::work_struct);
    pub(crate) fn loga_wake_later(work: *mut bindings::work_struct) -> bool;
    pub(crate) fn loga_control_register() -> c_int;
    pub(crate) fn loga_control_deregister();
    pub(crate) fn loga_directory_add(index: c_uint, gpu: *const c_void) -> *mut c_void;
    pub(crate) fn loga_directory_remove(directory: *mut c_void);

    pub(crate) fn loga_own_mapping(space: *mut bindings::address_space, file: *mut bindings::file);
    pub(crate) fn loga_shares_inode_mapping(file: *const bindings::file) -> bool;
    pub(crate) fn loga_return_mapping(file: *mut bindings::file);
    pub(crate) fn loga_file_minor(file: *const bindings::file) -> u32;
}

/// The monotonic clock of the host, in nanoseconds. Any context.
pub(crate) fn now() -> crate::units::Ns {
    // SAFETY: Readable from every context, without conditions.
    crate::units::Ns::new(unsafe { bindings::ktime_get_mono_fast_ns() })
}

/// An unpredictable seed for phases, scans and samples. Any context.
pub(crate) fn random() -> u64 {
    // SAFETY: Callable from every context, without conditions.
    unsafe { loga_random() }
}
