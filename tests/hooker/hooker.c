// SPDX-License-Identifier: GPL-2.0
/*
 * Another module that hooks the driver: only `unlocked_ioctl`, and with what
 * was there before behind it. For the tests of attaching and detaching.
 */

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

static struct file *control;
static struct file_operations *operations;
static long (*before)(struct file *file, unsigned int cmd, unsigned long arg);

static unsigned int calls;
module_param(calls, uint, 0444);
MODULE_PARM_DESC(calls, "calls that came through");

static long hooked(struct file *file, unsigned int cmd, unsigned long arg)
{
	WRITE_ONCE(calls, READ_ONCE(calls) + 1);
	return before(file, cmd, arg);
}

static int __init hooker_init(void)
{
	control = filp_open("/dev/nvidiactl", O_RDWR, 0);
	if (IS_ERR(control))
		return PTR_ERR(control);
	operations = (struct file_operations *)control->f_op;
	before = operations->unlocked_ioctl;
	WRITE_ONCE(operations->unlocked_ioctl, hooked);
	return 0;
}

static void __exit hooker_exit(void)
{
	WRITE_ONCE(operations->unlocked_ioctl, before);
	synchronize_rcu_tasks();
	fput(control);
}

module_init(hooker_init);
module_exit(hooker_exit);
MODULE_DESCRIPTION("Hooks one call of the GPU driver, for tests of LoGA");
MODULE_LICENSE("GPL");
