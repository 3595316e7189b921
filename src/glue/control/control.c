// SPDX-License-Identifier: GPL-2.0
/*
 * The control device and the directories of the knobs: static tables of the
 * kernel's C interfaces, with functions in Rust (chardev.rs, sysfs.rs).
 */
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/miscdevice.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "../kernel/shim.h"

/* ---------------------------------------------------------------- device */

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.open = loga_control_open,
	.release = loga_control_release,
	.read = loga_control_read,
	.poll = loga_control_poll,
	.unlocked_ioctl = loga_control_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

/* All users may read about their own processes; calls that change something check. */
static struct miscdevice control_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "loga",
	.fops = &control_operations,
	.mode = 0666,
};

void loga_control_deregister(void)
{
	misc_deregister(&control_device);
}

/* ---------------------------------------------------------------- wakes */

/* Wakes readers of events, without the locks under which events are queued. */
static struct workqueue_struct *wake_wq;

int loga_wake_wq_start(void)
{
	wake_wq = alloc_workqueue("loga-wake", WQ_UNBOUND, 0);
	return wake_wq ? 0 : -ENOMEM;
}

/* Waits for all pending wakes. */
void loga_wake_wq_stop(void)
{
	destroy_workqueue(wake_wq);
}

static void wake_run(struct work_struct *work)
{
	loga_listener_wake(work);
}

void loga_wake_init(struct work_struct *work)
{
	INIT_WORK(work, wake_run);
}

/* False if it is already pending. */
bool loga_wake_later(struct work_struct *work)
{
	return queue_work(wake_wq, work);
}

/* ----------------------------------------------------------------- knobs */

/* /sys/class/misc/loga/gpu<N> */
struct loga_directory {
	struct kobject kobj;
	const void *gpu; /* as given to loga_directory_add() */
};

/* Attributes of the knobs, from their names in Rust. */
static struct attribute knob_attr[LOGA_KNOBS];
static struct attribute available_policies = { .name = "available_policies", .mode = 0444 };
static struct attribute *knob_attrs[LOGA_KNOBS + 2] = { &available_policies };
ATTRIBUTE_GROUPS(knob);

static ssize_t knob_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	const struct loga_directory *dir = container_of(kobj, struct loga_directory, kobj);

	return loga_knob_show(dir->gpu, attr->name, buf);
}

static ssize_t knob_store(struct kobject *kobj, struct attribute *attr, const char *buf,
			  size_t len)
{
	const struct loga_directory *dir = container_of(kobj, struct loga_directory, kobj);

	return loga_knob_store(dir->gpu, attr->name, buf, len);
}

static void knobs_name(void)
{
	struct attribute **next = &knob_attrs[1];
	const char *name;
	bool live;
	size_t i;

	for (i = 0; i < LOGA_KNOBS && (name = loga_knob_name(i, &live)); i++) {
		if (!live)
			continue;
		knob_attr[i].name = name;
		knob_attr[i].mode = 0644;
		*next++ = &knob_attr[i];
	}
}

static const struct sysfs_ops knob_ops = {
	.show = knob_show,
	.store = knob_store,
};

static void directory_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct loga_directory, kobj));
}

static const struct kobj_type directory_type = {
	.release = directory_release,
	.sysfs_ops = &knob_ops,
	.default_groups = knob_groups,
};

/* NULL or an error pointer on failure. @gpu must live until the removal. */
struct loga_directory *loga_directory_add(uint index, const void *gpu)
{
	struct loga_directory *dir = kzalloc(sizeof(*dir), GFP_KERNEL);
	int err;

	if (!dir)
		return ERR_PTR(-ENOMEM);
	dir->gpu = gpu;
	err = kobject_init_and_add(&dir->kobj, &directory_type,
				   &control_device.this_device->kobj, "gpu%u", index);
	if (err) {
		kobject_put(&dir->kobj);
		return ERR_PTR(err);
	}
	return dir;
}

/* Waits until no thread is inside a read or write of a knob. */
void loga_directory_remove(struct loga_directory *dir)
{
	kobject_del(&dir->kobj);
	kobject_put(&dir->kobj);
}

int loga_control_register(void)
{
	knobs_name();
	return misc_register(&control_device);
}
