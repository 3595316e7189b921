// SPDX-License-Identifier: GPL-2.0
/*
 * Processes, users and cgroups: what the kernel's Rust bindings lack. shim.h declares it.
 */
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pid_namespace.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/threads.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "shim.h"

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
 * The user that a process belongs to: its real one, who started it, also if the
 * program is a setuid one; unless the process is in a user namespace that an
 * ordinary user made. Then it is the maker, whatever subordinate id the process
 * has; of nested namespaces the outermost counts. All ids of a namespace that root
 * made belong to the user that is mapped to its id 0, if that is not root.
 */
static u32 user_of(const struct cred *cred)
{
	kuid_t user = cred->uid;
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

/*
 * The thread whose user and cgroup are those of its process; under RCU. Where the
 * caller is asked about itself it is the one that calls, else the first that lives.
 * A thread that has ended stays in its cgroup, and keeps its user, when the others
 * change theirs: a leader until all have ended, and any thread that somebody traces
 * until its tracer takes note. So all are looked at, however many have ended
 * (signal->nr_threads, which the limits of user and cgroup bound).
 */
static const struct task_struct *first_living(const struct task_struct *leader)
{
	const struct task_struct *thread;

	if (in_task() && current->signal == leader->signal && !(current->flags & PF_EXITING))
		return current;
	for_each_thread(leader, thread)
		if (!(READ_ONCE(thread->flags) & PF_EXITING))
			return thread;
	return leader;
}

/*
 * Keys of the processes that a thread group descends from, the nearest first, without
 * the first process of the system. Returns how many there are, at most so many.
 */
u32 loga_process_ancestors(struct pid *tgid, u64 *keys, u32 most)
{
	struct task_struct *task;
	u32 count = 0;

	rcu_read_lock();
	task = living(tgid);
	while (task && count < most) {
		task = rcu_dereference(task->real_parent)->group_leader;
		if (task->pid <= 1)
			break;
		keys[count++] = key_of(task);
	}
	rcu_read_unlock();
	return count;
}

/* Fills in the identity of a thread group, unless it has begun to exit. */
bool loga_process_identity(struct pid *tgid, struct loga_identity *identity)
{
	const struct task_struct *thread;
	struct task_struct *task;

	rcu_read_lock();
	task = living(tgid);
	if (task) {
		thread = first_living(task);
		identity->key = key_of(task);
#ifdef CONFIG_CGROUPS
		place_of(task_dfl_cgroup((struct task_struct *)thread), identity);
#endif
		identity->uid = user_of(__task_cred(thread));
	}
	rcu_read_unlock();
	return task;
}

/* Threads whose time on a processor is summed up: any user may have thousands. */
#define MAX_THREADS 64

/*
 * Time that the threads of a process were on a processor, in ns, as of the last tick
 * of each; of the first MAX_THREADS threads that live, and of all that ended.
 */
u64 loga_process_cpu_time(struct pid *tgid)
{
	struct task_struct *task, *thread;
	unsigned int left = MAX_THREADS;
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

/* Is @task the living process @wanted, or any living one if that is NULL? */
static bool is_user(struct task_struct *task, const struct pid *wanted)
{
	struct pid *tgid = task_tgid(task);

	return tgid && living(tgid) && (!wanted || wanted == tgid);
}

/*
 * Number of a living process with a mapping of @file, in the pid namespace of the
 * caller: @wanted, or any if that is NULL. 0 if there is none, or none that the
 * namespace has. The file is open.
 */
int loga_file_user(struct file *file, const struct pid *wanted)
{
	struct address_space *mapping = file->f_mapping;
	struct rb_node *node;
	int nr = 0;

	i_mmap_lock_read(mapping);
	for (node = rb_first_cached(&mapping->i_mmap); node && !nr; node = rb_next(node)) {
		struct vm_area_struct *vma = rb_entry(node, struct vm_area_struct, shared.rb);
		struct task_struct *task = NULL;

		if (vma->vm_file != file)
			continue;
		rcu_read_lock();
#ifdef CONFIG_MEMCG
		task = rcu_dereference(vma->vm_mm->owner);
#endif
		if (task && is_user(task, wanted))
			nr = task_tgid_vnr(task);
		rcu_read_unlock();
	}
	i_mmap_unlock_read(mapping);
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

/* Is there no cgroup with this id (any more)? A caller in a cgroup namespace cannot tell. */
bool loga_cgroup_is_gone(u64 id)
{
#ifdef CONFIG_CGROUPS
	const struct nsproxy *spaces = current->nsproxy;
	struct cgroup *group;

	if (!spaces || spaces->cgroup_ns->root_cset->dfl_cgrp->level)
		return false;
	group = cgroup_get_from_id(id);
	if (IS_ERR(group))
		return PTR_ERR(group) == -ENOENT;
	cgroup_put(group);
#endif
	return false;
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

/* The nice value of the calling thread. */
int loga_caller_nice(void)
{
	return task_nice(current);
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
