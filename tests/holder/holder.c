// SPDX-License-Identifier: GPL-2.0
/*
 * Holds the lock of the areas of a file of the GPU that a process has mapped, as
 * a thread of that process does that was preempted there, until it is removed.
 * For the tests of revoking.
 */

#include <linux/completion.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>

/* Major number of the driver's devices. */
#define GPU_MAJOR 195

static int pid;
module_param(pid, int, 0444);
MODULE_PARM_DESC(pid, "process that has mapped the file");

static struct file *file;
static struct task_struct *holder;
static DECLARE_COMPLETION(held);

/* The file of the first area of a GPU's memory, with a reference. */
static struct file *mapped(struct mm_struct *mm)
{
	struct file *found = NULL;
	struct vm_area_struct *vma;
	VMA_ITERATOR(areas, mm, 0);

	mmap_read_lock(mm);
	for_each_vma(areas, vma) {
		if (vma->vm_file && vma->vm_flags & VM_PFNMAP &&
		    imajor(file_inode(vma->vm_file)) == GPU_MAJOR) {
			found = get_file(vma->vm_file);
			break;
		}
	}
	mmap_read_unlock(mm);
	return found;
}

static int hold(void *unused)
{
	i_mmap_lock_write(file->f_mapping);
	complete(&held);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 100);
	i_mmap_unlock_write(file->f_mapping);
	return 0;
}

static int __init holder_init(void)
{
	struct pid *number = find_get_pid(pid);
	struct task_struct *task = get_pid_task(number, PIDTYPE_PID);
	struct mm_struct *mm = task ? get_task_mm(task) : NULL;

	put_pid(number);
	if (task)
		put_task_struct(task);
	if (!mm)
		return -ESRCH;
	file = mapped(mm);
	mmput(mm);
	if (!file)
		return -ENXIO;
	holder = kthread_run(hold, NULL, "loga-holder");
	if (IS_ERR(holder)) {
		fput(file);
		return PTR_ERR(holder);
	}
	wait_for_completion(&held);
	return 0;
}

static void __exit holder_exit(void)
{
	kthread_stop(holder);
	fput(file);
}

module_init(holder_init);
module_exit(holder_exit);
MODULE_DESCRIPTION("Holds a lock of the kernel, for tests of LoGA");
MODULE_LICENSE("GPL");
