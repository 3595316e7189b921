// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel's Rust bindings lack: module parameters with strings and
 * callbacks, inline functions, macros, and the wait loops that are macros. No
 * logic of LoGA lives here.
 */
#include <linux/capability.h>
#include <linux/freezer.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/random.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "shim.h"

/* ------------------------------------------------------------ parameters */

/* The knobs are parameters too: params.rs. */

/* MAX_GPUS in ffi.rs. */
int loga_poller_cpu[16];
uint loga_poller_cpus;
module_param_array_named(poller_cpu, loga_poller_cpu, int, &loga_poller_cpus, 0444);
MODULE_PARM_DESC(poller_cpu, "CPU the poller is bound to, for each GPU; the last one given is for all others too (default -1: none)");

/*
 * Both are protected by the lock of the parameters, which sysfs takes: the file
 * exists from before the module is initialised until after its exit.
 */
static bool attach_loaded;
static bool attach_wanted = true;

static int attach_set(const char *val, const struct kernel_param *kp)
{
	bool want;
	int err = kstrtobool(val, &want);

	if (err)
		return err;
	if (!attach_loaded) {
		attach_wanted = want;
		return 0;
	}
	/* The mode of the file admits user 0 even without the capability. */
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	/* Attaching and detaching may take long; readers of parameters must not wait. */
	kernel_param_unlock(THIS_MODULE);
	err = loga_attach_set(want);
	kernel_param_lock(THIS_MODULE);
	return err;
}

static int attach_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", loga_attach_get());
}

static const struct kernel_param_ops attach_ops = {
	.set = attach_set,
	.get = attach_get,
};
module_param_cb(attach, &attach_ops, NULL, 0644);
MODULE_PARM_DESC(attach, "1: hook the driver (default), 0: leave it alone; written at run time it attaches or detaches");

/*
 * What LoGA refused at its last attempt to attach, and why: lines that end with a
 * line feed. Protected by the lock of the parameters, too.
 */
static char refusals[2048];
static size_t refusals_len;

static int refusals_set(const char *val, const struct kernel_param *kp)
{
	return -EPERM;
}

static int refusals_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%.*s", (int)refusals_len, refusals);
}

static const struct kernel_param_ops refusals_ops = {
	.set = refusals_set,
	.get = refusals_get,
};
module_param_cb(refusals, &refusals_ops, NULL, 0444);
MODULE_PARM_DESC(refusals, "read only: what was refused at the last attempt to attach, and why");

/* Forgets them: a new attempt begins. */
void loga_refusals_forget(void)
{
	kernel_param_lock(THIS_MODULE);
	refusals_len = 0;
	kernel_param_unlock(THIS_MODULE);
}

/* Adds a line, if there is room for the whole of it. */
void loga_refusals_add(const char *line)
{
	size_t len = strlen(line);

	kernel_param_lock(THIS_MODULE);
	if (len < sizeof(refusals) - refusals_len) {
		memcpy(refusals + refusals_len, line, len);
		refusals_len += len;
		refusals[refusals_len++] = '\n';
	}
	kernel_param_unlock(THIS_MODULE);
}

/* The value written before the module was initialised; from now on writes take effect at once. */
bool loga_attach_ready(void)
{
	bool wanted;

	kernel_param_lock(THIS_MODULE);
	attach_loaded = true;
	wanted = attach_wanted;
	kernel_param_unlock(THIS_MODULE);
	return wanted;
}

/* ---------------------------------------------------------------- machine */

bool loga_cpu_online(uint cpu)
{
	return cpu < nr_cpu_ids && cpu_online(cpu);
}

/* An unpredictable seed. */
u64 loga_random(void)
{
	return get_random_u64();
}

/* Binds a thread to a processor that is online again. */
void loga_thread_bind_again(struct task_struct *task, uint cpu)
{
	/* Fails harmlessly if the processor is offline by now. */
	set_cpus_allowed_ptr(task, cpumask_of(cpu));
}

/* ---------------------------------------------------------------- threads */

/*
 * Sleeps until *@wake is not 0, the thread is asked to stop, or @deadline_ns
 * (monotonic, ~0 for none) has passed. For kernel threads only. The waker calls
 * wake_up_process() after setting *@wake.
 */
void loga_thread_sleep(const u32 *wake, u64 deadline_ns)
{
	ktime_t deadline = ns_to_ktime(min_t(u64, deadline_ns, KTIME_MAX));

	set_current_state(TASK_IDLE);
	if (!READ_ONCE(*wake) && !kthread_should_stop()) {
		if (deadline_ns == U64_MAX)
			schedule();
		else
			schedule_hrtimeout_range(&deadline, 0, HRTIMER_MODE_ABS);
	}
	__set_current_state(TASK_RUNNING);
}

/*
 * Gives a thread priority over all ordinary threads. It has to sleep by itself.
 */
void loga_thread_set_fifo(struct task_struct *task)
{
	sched_set_fifo_low(task);
}

/* Is another thread runnable on the processor of the caller? */
bool loga_others_runnable(void)
{
	return !single_task_running();
}

/* Sleeps for @ns, which is short: signals do not end it. */
void loga_thread_sleep_ns(u64 ns)
{
	ktime_t time = ns_to_ktime(ns);

	set_current_state(TASK_IDLE);
	schedule_hrtimeout_range(&time, 0, HRTIMER_MODE_REL);
}

/* Begins a stretch of polling without preemption. */
void loga_preempt_disable(void)
{
	preempt_disable();
}

/* A call of an application holds a lock for a moment. */
void loga_stay(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_disable();
}

void loga_stay_no_more(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_enable();
}

/* Does the scheduler want to run another thread? */
bool loga_need_resched(void)
{
	return need_resched();
}

/* Ends it: runs waiting threads of higher priority, and reports a quiescent state to RCU-tasks. */
void loga_preempt_enable(void)
{
	preempt_enable();
	cond_resched_tasks_rcu_qs();
}

/* ------------------------------------------------------------------ locks */

/* pi_mutex.rs has room for one: ROOM. */
#define LOGA_PI_MUTEX_ROOM 256
static_assert(sizeof(struct rt_mutex) <= LOGA_PI_MUTEX_ROOM);

void loga_pi_mutex_init(void *lock, const char *name, struct lock_class_key *key)
{
	__rt_mutex_init(lock, name, key);
}

void loga_pi_mutex_lock(void *lock)
{
	rt_mutex_lock((struct rt_mutex *)lock);
}

int loga_pi_mutex_lock_interruptible(void *lock)
{
	return rt_mutex_lock_interruptible(lock);
}

bool loga_pi_mutex_trylock(void *lock)
{
	return rt_mutex_trylock(lock);
}

void loga_pi_mutex_unlock(void *lock)
{
	rt_mutex_unlock(lock);
}

void loga_pi_mutex_assert_held(void *lock)
{
	lockdep_assert_held((struct rt_mutex *)lock);
}

/* ----------------------------------------------------------------- faults */

void loga_release_fault_lock(struct vm_fault *vmf)
{
	release_fault_lock(vmf);
}

/* May the handler drop the lock and sleep? */
bool loga_fault_may_wait(const struct vm_fault *vmf)
{
	return (vmf->flags & FAULT_FLAG_ALLOW_RETRY) &&
	       !(vmf->flags & FAULT_FLAG_RETRY_NOWAIT);
}

/*
 * Sleeps while *@shut is not 0, at most @timeout_ns, for one wake-up at most: 0 also
 * if *@shut is still set; -ETIME when the time ran out, -ERESTARTSYS on a signal.
 * A task that sleeps here may be frozen: it holds no lock. The timer is as fine as the
 * clock: coarse ones of thousands of tasks would end together, in one interrupt.
 */
int loga_store_wait(wait_queue_head_t *queue, const u32 *shut, u64 timeout_ns)
{
	ktime_t timeout = min_t(u64, timeout_ns, KTIME_MAX);
	int result = 0;
	DEFINE_WAIT(wait);

	prepare_to_wait_exclusive(queue, &wait, TASK_INTERRUPTIBLE | TASK_FREEZABLE);
	if (READ_ONCE(*shut)) {
		if (signal_pending(current))
			result = -ERESTARTSYS;
		else if (!schedule_hrtimeout_range(&timeout, 0, HRTIMER_MODE_REL))
			result = -ETIME;
	}
	finish_wait(queue, &wait);
	if (result == -ETIME && signal_pending(current))
		result = -ERESTARTSYS;
	return result;
}

/* Wakes up to @count of those in loga_store_wait(). */
void loga_wake_some(wait_queue_head_t *queue, int count)
{
	__wake_up(queue, TASK_NORMAL, count, NULL);
}

/* Removes the entries of a part of an area of a device's pages. */
void loga_zap(struct vm_area_struct *vma, unsigned long addr, unsigned long len)
{
	zap_special_vma_range(vma, addr, len);
}

/*
 * Makes the driver's mmap create entries without any access, for an area under
 * construction. Not for private mappings, which LoGA does not touch.
 */
bool loga_hide(struct vm_area_struct *vma)
{
	/* As vma_is_cow_mapping(), which is there from Linux 7.3 on. */
	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
		return false;
	vma->vm_page_prot = vm_get_page_prot(0);
	return true;
}

/*
 * @prot with the access that @flags give; bits that the driver added stay. Like pgprot_modify(), which
 * a module cannot use: it reads cc_mask, which kernels with encrypted memory do not export.
 */
static pgprot_t with_access(pgprot_t prot, vm_flags_t flags)
{
	const pgprotval_t access = _PAGE_PRESENT | _PAGE_PROTNONE | _PAGE_RW | _PAGE_USER |
				   _PAGE_NX | _PAGE_PKEY_MASK;

	return __pgprot((pgprot_val(prot) & ~access) |
			(pgprot_val(vm_get_page_prot(flags)) & access));
}

/* Restores the access of a hidden area. */
void loga_unhide(struct vm_area_struct *vma)
{
	vma->vm_page_prot = with_access(vma->vm_page_prot, vma->vm_flags);
}

/*
 * Fills a run of pages. remap_pfn_range() refuses to fill a whole area again, since
 * the driver's call has reserved its memory type: the last page is inserted by itself.
 */
static int refill_run(struct vm_area_struct *vma, unsigned long at, unsigned long end,
		      unsigned long pfn)
{
	unsigned long last = end - PAGE_SIZE;
	int err;

	if (last > at) {
		err = remap_pfn_range(vma, at, pfn, last - at, vma->vm_page_prot);
		if (err)
			return err;
	}
	pfn += (last - at) >> PAGE_SHIFT;
	if (vmf_insert_pfn_prot(vma, last, pfn, vma->vm_page_prot) != VM_FAULT_NOPAGE)
		return -ENOMEM;
	return 0;
}

/*
 * Recreates the entries of an area under construction with its present access, in
 * runs of consecutive physical pages.
 */
int loga_refill(struct vm_area_struct *vma)
{
	unsigned long at = vma->vm_start;

	if (!(vma->vm_flags & VM_PFNMAP))
		return 0;

	while (at < vma->vm_end) {
		struct follow_pfnmap_args walk = { .vma = vma, .address = at };
		unsigned long first, end;
		int err;

		/* An area may have as many pages as the GPU's memory. */
		cond_resched();
		if (follow_pfnmap_start(&walk)) {
			at += PAGE_SIZE;
			continue;
		}
		first = walk.pfn;
		follow_pfnmap_end(&walk);
		for (end = at + PAGE_SIZE; end < vma->vm_end; end += PAGE_SIZE) {
			struct follow_pfnmap_args next = { .vma = vma, .address = end };
			unsigned long pfn;

			cond_resched();
			if (follow_pfnmap_start(&next))
				break;
			pfn = next.pfn;
			follow_pfnmap_end(&next);
			if (pfn != first + ((end - at) >> PAGE_SHIFT))
				break;
		}
		zap_special_vma_range(vma, at, end - at);
		err = refill_run(vma, at, end, first);
		if (err)
			return err;
		at = end;
	}
	return 0;
}

/*
 * Makes the page tables for an entry at an address, and none: 0, or -ENOMEM. Called in a fault on
 * the area.
 */
int loga_make_tables(struct vm_area_struct *vma, unsigned long addr)
{
	return apply_to_page_range(vma->vm_mm, addr & PAGE_MASK, PAGE_SIZE, NULL, NULL);
}

struct loga_entry {
	bool writable;
	bool found;
};

static int open_entry(pte_t *pte, unsigned long addr, void *data)
{
	struct loga_entry *entry = data;
	pte_t old = ptep_get(pte);

	entry->found = pte_present(old);
	/* As at the first touch of a page: no other processor has the bit cached, or it faults. */
	if (entry->found && entry->writable && !pte_write(old))
		set_pte(pte, pte_mkwrite_novma(pte_mkyoung(old)));
	return 0;
}

/*
 * Lets stores pass through the entry at an address, if they may at all, or loads only. Without an
 * entry it makes one, if pfn is not 0. Allocates nothing once loga_make_tables() or the driver has
 * made the tables. Called in a fault on the area, of which an entry has no access by itself that
 * stores need: it has a pfn_mkwrite().
 */
vm_fault_t loga_open_entry(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn,
			   bool writable)
{
	const vm_flags_t shared = VM_SHARED | VM_WRITE;
	struct loga_entry entry = {
		.writable = writable && (vma->vm_flags & shared) == shared,
	};
	pgprot_t prot = vma->vm_page_prot;

	if (apply_to_page_range(vma->vm_mm, addr & PAGE_MASK, PAGE_SIZE, open_entry, &entry))
		return VM_FAULT_OOM;
	if (entry.found || !pfn)
		return VM_FAULT_NOPAGE;
	if (entry.writable)
		prot = with_access(prot, vma->vm_flags);
	return vmf_insert_pfn_prot(vma, addr, pfn, prot);
}

/* A page of a device for the kernel, or NULL. May sleep. */
void *loga_map_frame(unsigned long pfn)
{
	return (__force void *)ioremap(PFN_PHYS(pfn), PAGE_SIZE);
}

void loga_unmap_frame(void *frame)
{
	iounmap((__force void __iomem *)frame);
}

/*
 * Stores to a page from loga_map_frame() what a debugger stores at an address of
 * an area of it, if the entry there lets stores through; else -EINVAL, as the
 * kernel's own function. Neither allocates nor sleeps.
 */
int loga_store(struct vm_area_struct *vma, unsigned long addr, void *frame, const void *data,
	       unsigned int len)
{
	struct follow_pfnmap_args entry = { .vma = vma, .address = addr };
	bool writable;

	if (follow_pfnmap_start(&entry))
		return -EINVAL;
	writable = entry.writable;
	if (writable)
		memcpy_toio((__force void __iomem *)frame + offset_in_page(addr), data, len);
	follow_pfnmap_end(&entry);
	return writable ? (int)len : -EINVAL;
}

/* -------------------------------------------------------- revoking entries */

/*
 * Removes the entries of all areas of an address space, as unmap_mapping_range() does. False, and some
 * of them may be left, if that needs a lock that somebody has: it is not waited for.
 */
bool loga_try_zap(struct address_space *mapping)
{
	struct rb_node *node;

	if (!i_mmap_trylock_read(mapping))
		return false;
	for (node = rb_first_cached(&mapping->i_mmap); node; node = rb_next(node)) {
		struct vm_area_struct *vma =
			container_of(node, struct vm_area_struct, shared.rb);

		zap_special_vma_range(vma, vma->vm_start, vma->vm_end - vma->vm_start);
	}
	i_mmap_unlock_read(mapping);
	return true;
}

/* A reference on a file that is open. */
struct file *loga_hold_file(struct file *file)
{
	return get_file(file);
}

static struct workqueue_struct *revocations;

/* Makes the threads that revocations wait in: as many as there are pages that are waited for. */
int loga_start_revocations(void)
{
	revocations = alloc_workqueue("loga-revoke", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	return revocations ? 0 : -ENOMEM;
}

/* Waits until all of them have ended. */
void loga_end_revocations(void)
{
	destroy_workqueue(revocations);
}

struct workqueue_struct *loga_revocations(void)
{
	return revocations;
}

/* fork() does not copy this area. */
void loga_do_not_copy(struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_DONTCOPY);
}

/*
 * An area was copied by fork(): neither the copy nor the original is copied again. Called by the
 * area's open(); the caller of fork() has both address spaces locked.
 */
void loga_copy_no_more(struct vm_area_struct *copy)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *original;

	vm_flags_set(copy, VM_DONTCOPY);
	if (!mm || copy->vm_mm == mm)
		return;
	original = vma_lookup(mm, copy->vm_start);
	if (original && original->vm_ops == copy->vm_ops)
		vm_flags_set(original, VM_DONTCOPY);
}

/* Sleeps while *@empty is not 0; 0, or -ERESTARTSYS on a signal. */
int loga_wait(wait_queue_head_t *queue, const u32 *empty)
{
	return wait_event_interruptible(*queue, !READ_ONCE(*empty));
}

void loga_init_waitqueue(wait_queue_head_t *queue)
{
	init_waitqueue_head(queue);
}

void loga_wake_all(wait_queue_head_t *queue)
{
	wake_up_all(queue);
}

/* Gives a file an address space of its own, as newer drivers do themselves. */
void loga_own_mapping(struct address_space *space, struct file *file)
{
	address_space_init_once(space);
	space->host = file_inode(file);
	space->a_ops = file_inode(file)->i_mapping->a_ops;
	file->f_mapping = space;
}

bool loga_shares_inode_mapping(const struct file *file)
{
	return file->f_mapping == file_inode(file)->i_mapping;
}

void loga_return_mapping(struct file *file)
{
	file->f_mapping = file_inode(file)->i_mapping;
}

u32 loga_file_minor(const struct file *file)
{
	return iminor(file_inode(file));
}
