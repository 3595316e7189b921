// SPDX-License-Identifier: GPL-2.0
/*
 * Notifiers for modules, PCI devices, sleep and processors. They call functions
 * in Rust (notices.rs).
 */
#include <linux/cpuhotplug.h>
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/spinlock.h>
#include <linux/suspend.h>
#include <linux/workqueue.h>

#include "../kernel/shim.h"

/* Base class of display controllers. */
#define DISPLAY (PCI_BASE_CLASS_DISPLAY)

static bool is_gpu(const struct pci_dev *device)
{
	return device->vendor == PCI_VENDOR_ID_NVIDIA && device->class >> 16 == DISPLAY;
}

/* Is a GPU bound to a driver that is a module? */
static bool gpu_is_driven(void)
{
	struct pci_dev *device = NULL;

	while ((device = pci_get_device(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID, device))) {
		const struct module *driver;

		if (!is_gpu(device))
			continue;
		device_lock(&device->dev);
		driver = loga_driver_of(device);
		device_unlock(&device->dev);
		if (driver) {
			pci_dev_put(device);
			return true;
		}
	}
	return false;
}

/* ------------------------------------------------------ attaching later */

/*
 * Attaching opens the driver's control device, which may load a module: not
 * allowed while a chain of notifiers is locked, hence a work item. The driver is
 * asked for its cards in the address space of the process that loaded the driver
 * or bound the card.
 */
static DEFINE_SPINLOCK(memory_lock);
static struct mm_struct *memory;

static void attach_run(struct work_struct *work)
{
	struct mm_struct *mm;

	spin_lock(&memory_lock);
	mm = memory;
	memory = NULL;
	spin_unlock(&memory_lock);
	if (mm)
		kthread_use_mm(mm);
	if (gpu_is_driven())
		loga_driver_appeared();
	if (mm) {
		kthread_unuse_mm(mm);
		mmput(mm);
	}
}

static DECLARE_WORK(attach_work, attach_run);

static void attach_later(void)
{
	struct mm_struct *mm = current->flags & PF_KTHREAD ? NULL : get_task_mm(current);

	spin_lock(&memory_lock);
	if (mm)
		swap(memory, mm);
	spin_unlock(&memory_lock);
	if (mm)
		mmput(mm);
	queue_work(system_unbound_wq, &attach_work);
}

/* ---------------------------------------------------------------- notifiers */

/* In a work item: a probe may wait for a module, with its device locked. */
static int on_module(struct notifier_block *block, unsigned long what, void *data)
{
	if (what == MODULE_STATE_LIVE && data != THIS_MODULE && loga_is_waiting())
		attach_later();
	return NOTIFY_DONE;
}

/* The device is locked. */
static int on_device(struct notifier_block *block, unsigned long what, void *data)
{
	struct pci_dev *device = to_pci_dev(data);

	if (!is_gpu(device))
		return NOTIFY_DONE;
	switch (what) {
	case BUS_NOTIFY_UNBIND_DRIVER:
	case BUS_NOTIFY_DEL_DEVICE:
		loga_device_goes(device);
		break;
	case BUS_NOTIFY_BOUND_DRIVER:
		/* A module that is being loaded is reported once it is live. */
		if (loga_driver_of(device) && loga_module_is_live(loga_driver_of(device)))
			attach_later();
		break;
	}
	return NOTIFY_DONE;
}

static int on_sleep(struct notifier_block *block, unsigned long what, void *data)
{
	switch (what) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		loga_machine_sleeps(true);
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		loga_machine_sleeps(false);
		break;
	}
	return NOTIFY_DONE;
}

static int on_cpu(uint cpu)
{
	loga_cpu_came(cpu);
	return 0;
}

static struct notifier_block module_block = { .notifier_call = on_module };
static struct notifier_block device_block = { .notifier_call = on_device };
static struct notifier_block sleep_block = { .notifier_call = on_sleep };
static int cpu_state;

int loga_notices_begin(void)
{
	int err = bus_register_notifier(&pci_bus_type, &device_block);

	if (err)
		return err;
	err = register_pm_notifier(&sleep_block);
	if (err)
		goto no_sleep;
	err = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "loga:online", on_cpu, NULL);
	if (err < 0)
		goto no_cpu;
	cpu_state = err;
	err = register_module_notifier(&module_block);
	if (err)
		goto no_module;
	return 0;

no_module:
	cpuhp_remove_state_nocalls(cpu_state);
no_cpu:
	unregister_pm_notifier(&sleep_block);
no_sleep:
	bus_unregister_notifier(&pci_bus_type, &device_block);
	return err;
}

/* After the return nothing of this file runs any more. */
void loga_notices_end(void)
{
	unregister_module_notifier(&module_block);
	cpuhp_remove_state_nocalls(cpu_state);
	unregister_pm_notifier(&sleep_block);
	bus_unregister_notifier(&pci_bus_type, &device_block);
	cancel_work_sync(&attach_work);
	if (memory)
		mmput(memory);
	memory = NULL;
}
