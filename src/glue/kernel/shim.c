// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel's Rust bindings lack: module parameters with strings and
 * callbacks, inline functions, macros, and the wait loops that are macros. No
 * logic of LoGA lives here.
 */
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/freezer.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/pid_namespace.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/threads.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/wait.h>

#include "shim.h"

/* ------------------------------------------------------------ parameters */

/* The knobs are parameters too: params.rs. */

/* MAX_GPUS in bar.rs. */
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

/* ------------------------------------------------------------- processes */

/* The thread group of the caller, with a reference. */
struct pid *loga_current_tgid(void)
{
	return get_task_pid(current, PIDTYPE_TGID);
}

/* Bits of a process id. */
#define PID_BITS 22
static_assert(PID_MAX_LIMIT <= 1 << PID_BITS);

/*
 * Key of a process: its start time, in units of 2^18 ns (262 us), and its id.
 * The id cannot be reused within a unit: pid_max is 301 at least, and no machine
 * starts a process in less than a microsecond. The units wrap after 36 years.
 */
#define START_UNIT_BITS 18
static_assert(64 - PID_BITS + START_UNIT_BITS >= 60);

static u64 key_of(const struct task_struct *leader)
{
	return leader->start_time >> START_UNIT_BITS << PID_BITS |
	       task_pid_nr((struct task_struct *)leader);
}

/*
 * The user that a process belongs to: its effective one, unless the process is in
 * a user namespace that an ordinary user made. Then it is the maker, whatever
 * subordinate id the process has; of nested namespaces the outermost counts. All
 * ids of a namespace that root made belong to the user that is mapped to its id
 * 0, if that is not root.
 */
static u32 user_of(const struct cred *cred)
{
	kuid_t user = cred->euid;
	struct user_namespace *ns;

	for (ns = cred->user_ns; ns && ns != &init_user_ns; ns = ns->parent) {
		kuid_t owner = ns->owner;

		if (uid_eq(owner, GLOBAL_ROOT_UID))
			owner = make_kuid(ns, 0);
		if (uid_valid(owner) && !uid_eq(owner, GLOBAL_ROOT_UID))
			user = owner;
	}
	return __kuid_val(user);
}

#ifdef CONFIG_CGROUPS
/* The place of a cgroup. A reference on it keeps its ancestors too. */
static void place_of(const struct cgroup *group, struct loga_identity *identity)
{
	int level;

	identity->cgroup = cgroup_id(group);
	for (level = 0; level < LOGA_LEVELS; level++)
		identity->above[level] = level < group->level ?
			cgroup_id(group->ancestors[level]) : 0;
}
#endif

/* The leader of a thread group that has not begun to exit; under RCU. */
static struct task_struct *living(struct pid *tgid)
{
	struct task_struct *task = pid_task(tgid, PIDTYPE_TGID);

	return task && atomic_read(&task->signal->live) > 0 ? task : NULL;
}

/* Fills in the identity of a thread group, unless it has begun to exit. */
bool loga_process_identity(struct pid *tgid, struct loga_identity *identity)
{
	struct task_struct *task;

	rcu_read_lock();
	task = living(tgid);
	if (task) {
		identity->key = key_of(task);
#ifdef CONFIG_CGROUPS
		place_of(task_dfl_cgroup(task), identity);
#endif
		identity->uid = user_of(__task_cred(task));
	}
	rcu_read_unlock();
	return task;
}

/* Threads of a process whose time is added up: any user may have thousands. */
#define MAX_TIMED_THREADS 256

/*
 * Time that the threads of a process were on a processor, in ns, as of the last tick
 * of each; of the first MAX_TIMED_THREADS threads that live, and of all that ended.
 */
u64 loga_process_cpu_time(struct pid *tgid)
{
	struct task_struct *task, *thread;
	unsigned int left = MAX_TIMED_THREADS;
	u64 time = 0;

	rcu_read_lock();
	task = living(tgid);
	if (task) {
		time = READ_ONCE(task->signal->sum_sched_runtime);
		for_each_thread(task, thread) {
			if (!left--)
				break;
			time += READ_ONCE(thread->se.sum_exec_runtime);
		}
	}
	rcu_read_unlock();
	return time;
}

/* The thread group with this process or thread in the caller's namespace, with a reference. */
struct pid *loga_find_tgid(int nr)
{
	struct task_struct *task;
	struct pid *tgid = NULL, *pid;

	rcu_read_lock();
	pid = find_vpid(nr);
	task = pid ? pid_task(pid, PIDTYPE_PID) : NULL;
	if (task)
		tgid = get_pid(task_tgid(task));
	rcu_read_unlock();
	return tgid;
}

/* Pid of a process for the caller; 0 if it has none there, -ESRCH once it has begun to exit. */
int loga_pid_of_key(u64 key)
{
	struct task_struct *task;
	int nr = -ESRCH;
	struct pid *pid;

	rcu_read_lock();
	pid = find_pid_ns(key & ((1 << PID_BITS) - 1), &init_pid_ns);
	task = pid ? living(pid) : NULL;
	if (task && key_of(task) == key)
		nr = pid_vnr(pid);
	rcu_read_unlock();
	return nr;
}

/* A user id of the caller's namespace in the initial one; ~0 for none. */
u32 loga_user_of(u32 uid)
{
	return __kuid_val(make_kuid(current_user_ns(), uid));
}

/* The place of the cgroup with this id, if it exists and the caller can see it. */
bool loga_cgroup_place(u64 id, struct loga_identity *identity)
{
#ifdef CONFIG_CGROUPS
	struct cgroup *group = cgroup_get_from_id(id);

	if (IS_ERR(group))
		return false;
	place_of(group, identity);
	cgroup_put(group);
	return true;
#else
	return false;
#endif
}

/* The root of the caller's cgroup namespace. */
u64 loga_caller_cgroup_root(void)
{
#ifdef CONFIG_CGROUPS
	/* The running task keeps its namespace, and thereby the root. */
	return cgroup_id(current->nsproxy->cgroup_ns->root_cset->dfl_cgrp);
#else
	return 0;
#endif
}

/* The user that the caller belongs to. */
u32 loga_caller_user(void)
{
	return user_of(current_cred());
}

bool loga_caller_may_change(void)
{
	return capable(CAP_SYS_ADMIN);
}

/* Checked on every read: noaudit, since a refusal is no attempt to record. */
bool loga_caller_reads_all(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_PERFMON) ||
	       ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
}

/*
 * May the caller make a process slower? It may if it may kill it: this is the
 * check of kill(2).
 */
bool loga_caller_may_lower(struct pid *tgid)
{
	const struct cred *own = current_cred(), *its;
	struct task_struct *task;
	bool may = false;

	rcu_read_lock();
	task = living(tgid);
	if (task) {
		its = __task_cred(task);
		may = uid_eq(own->euid, its->suid) || uid_eq(own->euid, its->uid) ||
		      uid_eq(own->uid, its->suid) || uid_eq(own->uid, its->uid) ||
		      ns_capable(its->user_ns, CAP_KILL);
	}
	rcu_read_unlock();
	return may;
}

/* Name of a thread group's leader, if it lives; @buf has TASK_COMM_LEN zeroes. */
void loga_process_comm(struct pid *tgid, char *buf)
{
	struct task_struct *task;

	rcu_read_lock();
	task = pid_task(tgid, PIDTYPE_TGID);
	if (task)
		strscpy_pad(buf, task->comm, TASK_COMM_LEN);
	rcu_read_unlock();
}

void loga_get_pid(struct pid *pid)
{
	get_pid(pid);
}

int loga_pid_number(struct pid *tgid)
{
	return pid_nr(tgid);
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

/* Sleeps for @ns. For kernel threads only. */
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
 * Sleeps while *@shut is not 0, at most @timeout_ms. Returns 0 when released,
 * -ETIME when the time ran out, -ERESTARTSYS on a signal. A task that sleeps here
 * may be frozen: it holds no lock.
 */
int loga_gate_wait(wait_queue_head_t *queue, const u32 *shut, u32 timeout_ms)
{
	long left = msecs_to_jiffies(timeout_ms);

	left = wait_event_freezable_timeout(*queue, !READ_ONCE(*shut), left);
	return left > 0 ? 0 : left == 0 ? -ETIME : left;
}

/*
 * Makes the driver's mmap create entries without any access, for an area under
 * construction. Not for private mappings, which LoGA does not touch.
 */
bool loga_hide(struct vm_area_struct *vma)
{
	if (vma_is_cow_mapping(vma))
		return false;
	vma->vm_page_prot = vm_get_page_prot(0);
	return true;
}

/* Restores the access of a hidden area; bits that the driver added stay. */
void loga_unhide(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_modify(vma->vm_page_prot, vm_get_page_prot(vma->vm_flags));
}

/*
 * Recreates the entries of an area under construction with its present access, in
 * runs of consecutive physical pages.
 */
int loga_refill(struct vm_area_struct *vma)
{
	unsigned long at = vma->vm_start;

	while (at < vma->vm_end) {
		struct follow_pfnmap_args walk = { .vma = vma, .address = at };
		unsigned long first, end;
		int err;

		if (follow_pfnmap_start(&walk)) {
			at += PAGE_SIZE;
			continue;
		}
		first = walk.pfn;
		follow_pfnmap_end(&walk);
		for (end = at + PAGE_SIZE; end < vma->vm_end; end += PAGE_SIZE) {
			struct follow_pfnmap_args next = { .vma = vma, .address = end };
			unsigned long pfn;

			if (follow_pfnmap_start(&next))
				break;
			pfn = next.pfn;
			follow_pfnmap_end(&next);
			if (pfn != first + ((end - at) >> PAGE_SHIFT))
				break;
		}
		zap_special_vma_range(vma, at, end - at);
		err = remap_pfn_range(vma, at, first, end - at, vma->vm_page_prot);
		if (err)
			return err;
		at = end;
	}
	return 0;
}

/* fork() does not copy this area. */
void loga_do_not_copy(struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_DONTCOPY);
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
