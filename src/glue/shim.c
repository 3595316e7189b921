// SPDX-License-Identifier: GPL-2.0
/*
 * What the Rust bindings of the kernel do not reach: module parameters with
 * strings and callbacks, inline functions, macros, and the wait loops that are
 * macros. No logic of LoGA lives here.
 */
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/threads.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/wait.h>

#include "shim.h"

/* ------------------------------------------------------------ parameters */

char *loga_policy = "maxmin";
module_param_named(policy, loga_policy, charp, 0444);
MODULE_PARM_DESC(policy, "who is held back: maxmin (default), event (LoGA), event-cl, sampling, timeslice, timeslice-eng or none");

char *loga_source = "engine-status";
module_param_named(source, loga_source, charp, 0444);
MODULE_PARM_DESC(source, "what is polled: engine-status (default) or channel-table");

bool loga_enforce;
module_param_named(enforce, loga_enforce, bool, 0444);
MODULE_PARM_DESC(enforce, "carry decisions out (default 0: account only)");

uint loga_poll_ms = 1;
module_param_named(poll_ms, loga_poll_ms, uint, 0444);
MODULE_PARM_DESC(poll_ms, "polling phase per allocated channel or active client (see scale) in ms, 1 to 1000 (default 1)");

uint loga_ratio = 5;
module_param_named(ratio, loga_ratio, uint, 0444);
MODULE_PARM_DESC(ratio, "non-polling phase as a multiple of the polling phase, 1 to 1000 (default 5)");

bool loga_randomize;
module_param_named(randomize, loga_randomize, bool, 0444);
MODULE_PARM_DESC(randomize, "vary the phase lengths around the same mean (default 0)");

char *loga_accounting = "burst";
module_param_named(accounting, loga_accounting, charp, 0444);
MODULE_PARM_DESC(accounting, "how GPU time is measured: burst (polling phases, default) or sparse (looks at random instants)");

char *loga_scale = "";
module_param_named(scale, loga_scale, charp, 0444);
MODULE_PARM_DESC(scale, "what phases grow with: channels, or active (clients), which needs randomize=1 and is the default with it");

bool loga_poll_always;
module_param_named(poll_always, loga_poll_always, bool, 0444);
MODULE_PARM_DESC(poll_always, "no non-polling phases: exact accounting at the price of a CPU (default 0)");

char *loga_poller = "per-gpu";
module_param_named(poller, loga_poller, charp, 0444);
MODULE_PARM_DESC(poller, "who polls: per-gpu (a thread each, default) or shared (one thread, one GPU at a time)");

/* MAX_GPUS in bar.rs. */
int loga_poller_cpu[16];
uint loga_poller_cpus;
module_param_array_named(poller_cpu, loga_poller_cpu, int, &loga_poller_cpus, 0444);
MODULE_PARM_DESC(poller_cpu, "CPU the poller is bound to, for each GPU; the last one given is for all others too (default -1: none)");

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
	return loga_attach_set(want);
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

/* Parameters given at load are parsed before the module is initialised. */
bool loga_attach_ready(void)
{
	attach_loaded = true;
	return attach_wanted;
}

/* ------------------------------------------------------- other modules */

/* Is @addr in the writable, permanent data of @mod? */
bool loga_in_module_data(const struct module *mod, const void *addr)
{
	return within_module_mem_type((unsigned long)addr, mod, MOD_DATA);
}

/* Is @addr in the text of @mod? */
bool loga_in_module_text(const struct module *mod, const void *addr)
{
	return within_module_mem_type((unsigned long)addr, mod, MOD_TEXT);
}

const char *loga_module_name(const struct module *mod)
{
	return mod->name;
}

/* One 64-bit store that a concurrent reader sees whole. */
void loga_write_pointer(void **slot, void *value)
{
	WRITE_ONCE(*slot, value);
}

/* Waits until no task can still be preempted inside code that was hooked. */
void loga_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}

/* ---------------------------------------------------------------- machine */

bool loga_cpu_online(uint cpu)
{
	return cpu < nr_cpu_ids && cpu_online(cpu);
}

u32 loga_pci_domain(const struct pci_dev *device)
{
	return pci_domain_nr(device->bus);
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

/* No process of the same id starts within the same microsecond again. */
static u64 key_of(const struct task_struct *leader)
{
	return leader->start_time >> 10 << PID_BITS | task_pid_nr((struct task_struct *)leader);
}

/* The leader of a thread group that has not begun to exit; under RCU. */
static struct task_struct *living(struct pid *tgid)
{
	struct task_struct *task = pid_task(tgid, PIDTYPE_TGID);

	return task && atomic_read(&task->signal->live) > 0 ? task : NULL;
}

/* Says who a thread group is, unless it has begun to exit. */
bool loga_process_identity(struct pid *tgid, struct loga_identity *who)
{
	struct task_struct *task;

	rcu_read_lock();
	task = living(tgid);
	if (task) {
		who->key = key_of(task);
#ifdef CONFIG_CGROUPS
		who->cgroup = cgroup_id(task_dfl_cgroup(task));
#endif
		who->uid = __kuid_val(task_cred_xxx(task, euid));
	}
	rcu_read_unlock();
	return task;
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

/* The caller's number for a process; 0 where it has none, -ESRCH once it has begun to exit. */
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

/* Is there a cgroup of this id that the caller can see? */
bool loga_cgroup_exists(u64 id)
{
#ifdef CONFIG_CGROUPS
	struct cgroup *group = cgroup_get_from_id(id);

	if (IS_ERR(group))
		return false;
	cgroup_put(group);
	return true;
#else
	return false;
#endif
}

bool loga_caller_is_admin(void)
{
	return capable(CAP_SYS_ADMIN);
}

/* Name of the caller's thread group leader; @buf has TASK_COMM_LEN bytes. */
void loga_leader_comm(char *buf)
{
	rcu_read_lock();
	strscpy_pad(buf, current->group_leader->comm, TASK_COMM_LEN);
	rcu_read_unlock();
}

/* ---------------------------------------------------------------- threads */

/*
 * Sleeps until *@wake is not 0, the thread is asked to stop, or @deadline_ns
 * (monotonic, ~0 for none) has passed. For kernel threads only. Who sets *@wake
 * calls wake_up_process() after it.
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

/* Begins a stretch of polling in which nobody takes the processor away. */
void loga_poll_hold(void)
{
	preempt_disable();
}

/* Does somebody else want the processor? */
bool loga_poll_is_wanted_away(void)
{
	return need_resched();
}

/* Ends it: lets others run if they want to, and tells RCU-tasks that we are alive. */
void loga_poll_release(void)
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
 * Sleeps while *@held is not 0, at most @timeout_ms. Returns 0 when released,
 * -ETIME when the time ran out, -ERESTARTSYS on a signal. A fault of user code
 * lets every signal through; one of kernel code only those that kill.
 */
int loga_gate_wait(wait_queue_head_t *queue, const u32 *held, bool user, u32 timeout_ms)
{
	long left = msecs_to_jiffies(timeout_ms);

	if (user)
		left = wait_event_interruptible_timeout(*queue, !READ_ONCE(*held), left);
	else
		left = wait_event_killable_timeout(*queue, !READ_ONCE(*held), left);
	return left > 0 ? 0 : left == 0 ? -ETIME : left;
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

u32 loga_file_major(const struct file *file)
{
	return imajor(file_inode(file));
}

bool loga_file_is_chrdev(const struct file *file)
{
	return S_ISCHR(file_inode(file)->i_mode);
}
