// SPDX-License-Identifier: GPL-2.0
/*
 * What Rust cannot name: module parameters that change at run time, and
 * inline functions and macros that the kernel's bindings leave out.
 */

#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

/* Defined in glue/params.rs. */
int loga_model_set_lost(bool lost);
int loga_model_set_registers(unsigned int what);

/* Read by glue/params.rs. */
extern unsigned int loga_model_switch_us, loga_model_timeslice_us, loga_model_doorbell_us;
extern unsigned int loga_model_snoop_us;
extern unsigned int loga_model_branch, loga_model_log_entries, loga_model_nodes;
extern unsigned int loga_model_fail_open, loga_model_fail_ioctl, loga_model_fail_mmap;
extern unsigned int loga_model_fail_after;
extern unsigned int loga_model_gpus, loga_model_device, loga_model_boot_0, loga_model_boot_42;
void loga_model_raw_lock_init(raw_spinlock_t *lock, const char *name, struct lock_class_key *key);
unsigned long loga_model_raw_lock(raw_spinlock_t *lock);
bool loga_model_raw_trylock(raw_spinlock_t *lock, unsigned long *flags);
void loga_model_raw_unlock(raw_spinlock_t *lock, unsigned long flags);
void loga_model_raw_assert_held(raw_spinlock_t *lock);
extern unsigned int loga_model_turing;
void *loga_model_vmalloc_user(unsigned long size);
void *loga_model_vzalloc(unsigned long size);
void loga_model_vfree(void *memory);
int loga_model_map_vmalloc(struct vm_area_struct *vma, void *memory, unsigned long page);
void loga_model_set_uncached(struct vm_area_struct *vma);
bool loga_model_is_cow(struct vm_area_struct *vma);

unsigned int loga_model_switch_us = 5;
module_param_named(switch_us, loga_model_switch_us, uint, 0444);
MODULE_PARM_DESC(switch_us, "cost of a context switch in us");

unsigned int loga_model_timeslice_us = 1048;
module_param_named(timeslice_us, loga_model_timeslice_us, uint, 0444);
MODULE_PARM_DESC(timeslice_us, "timeslice in us, 0: switch after every command");

unsigned int loga_model_doorbell_us = 5;
module_param_named(doorbell_us, loga_model_doorbell_us, uint, 0444);
MODULE_PARM_DESC(doorbell_us, "how often an idle engine scans for work, in us");

unsigned int loga_model_snoop_us = 20;
module_param_named(snoop_us, loga_model_snoop_us, uint, 0444);
MODULE_PARM_DESC(snoop_us, "how often a busy engine scans for channels that got work, in us");

unsigned int loga_model_branch = 470;
module_param_named(branch, loga_model_branch, uint, 0444);
MODULE_PARM_DESC(branch, "driver branch to imitate: 340, 470 or 550");

unsigned int loga_model_log_entries = 65536;
module_param_named(log_entries, loga_model_log_entries, uint, 0444);
MODULE_PARM_DESC(log_entries, "intervals kept in the log");

unsigned int loga_model_nodes = 1;
module_param_named(nodes, loga_model_nodes, uint, 0444);
MODULE_PARM_DESC(nodes, "0: only the PCI device, so that a real driver can have major 195");

unsigned int loga_model_gpus = 1;
module_param_named(gpus, loga_model_gpus, uint, 0444);
MODULE_PARM_DESC(gpus, "number of cards, 1 to 6");

unsigned int loga_model_device = 0x100c;
module_param_named(device, loga_model_device, uint, 0444);
MODULE_PARM_DESC(device, "PCI device id of the cards; PMC_BOOT_0 and PMC_BOOT_42 follow for known ones");

unsigned int loga_model_boot_0;
module_param_named(boot_0, loga_model_boot_0, uint, 0444);
MODULE_PARM_DESC(boot_0, "what PMC_BOOT_0 reads, 0: as the device's");

unsigned int loga_model_boot_42;
module_param_named(boot_42, loga_model_boot_42, uint, 0444);
MODULE_PARM_DESC(boot_42, "what PMC_BOOT_42 reads, 0: as the device's");

unsigned int loga_model_turing;
module_param_named(turing, loga_model_turing, uint, 0444);
MODULE_PARM_DESC(turing, "cards whose PMC_BOOT_0 names a Turing chip, one bit each");

unsigned int loga_model_fail_mmap;
module_param_named(fail_mmap, loga_model_fail_mmap, uint, 0644);
MODULE_PARM_DESC(fail_mmap, "1: mmap fails with ENXIO, 2: with a positive RM status");

unsigned int loga_model_fail_open;
module_param_named(fail_open, loga_model_fail_open, uint, 0644);
MODULE_PARM_DESC(fail_open, "1: open fails with EIO");

unsigned int loga_model_fail_ioctl;
module_param_named(fail_ioctl, loga_model_fail_ioctl, uint, 0644);
MODULE_PARM_DESC(fail_ioctl, "number of the call that fails with EIO, such as 0x2b, 0: none");

unsigned int loga_model_fail_after;
module_param_named(fail_after, loga_model_fail_after, uint, 0644);
MODULE_PARM_DESC(fail_after, "1: what fails does its work first");

static bool loga_model_lost;

static int loga_model_lost_set(const char *value, const struct kernel_param *param)
{
	bool lost;
	int error = kstrtobool(value, &lost);

	if (!error)
		error = loga_model_set_lost(lost);
	if (!error)
		loga_model_lost = lost;
	return error;
}

static const struct kernel_param_ops loga_model_lost_ops = {
	.set = loga_model_lost_set,
	.get = param_get_bool,
};

module_param_cb(lost, &loga_model_lost_ops, &loga_model_lost, 0644);
MODULE_PARM_DESC(lost, "1: the first card has fallen off the bus, all registers read all ones");

static unsigned int loga_model_registers;

static int loga_model_registers_set(const char *value, const struct kernel_param *param)
{
	unsigned int what;
	int error = kstrtouint(value, 0, &what);

	if (!error)
		error = loga_model_set_registers(what);
	if (!error)
		loga_model_registers = what;
	return error;
}

static const struct kernel_param_ops loga_model_registers_ops = {
	.set = loga_model_registers_set,
	.get = param_get_uint,
};

module_param_cb(registers, &loga_model_registers_ops, &loga_model_registers, 0644);
MODULE_PARM_DESC(registers, "the first card's: 0: live, 1: they and PTIMER stand still, 2: random words");

void *loga_model_vmalloc_user(unsigned long size)
{
	return vmalloc_user(size);
}

void *loga_model_vzalloc(unsigned long size)
{
	return vzalloc(size);
}

void loga_model_vfree(void *memory)
{
	vfree(memory);
}

int loga_model_map_vmalloc(struct vm_area_struct *vma, void *memory, unsigned long page)
{
	return remap_vmalloc_range(vma, memory, page);
}

void loga_model_set_uncached(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
}

bool loga_model_is_cow(struct vm_area_struct *vma)
{
	return vma_is_cow_mapping(vma);
}

/* As rust/helpers/spinlock.c does for locks that may sleep under PREEMPT_RT. */
void loga_model_raw_lock_init(raw_spinlock_t *lock, const char *name, struct lock_class_key *key)
{
#ifdef CONFIG_DEBUG_SPINLOCK
	__raw_spin_lock_init(lock, name, key, LD_WAIT_SPIN);
#else
	raw_spin_lock_init(lock);
#endif
}

unsigned long loga_model_raw_lock(raw_spinlock_t *lock)
{
	unsigned long flags;

	raw_spin_lock_irqsave(lock, flags);
	return flags;
}

bool loga_model_raw_trylock(raw_spinlock_t *lock, unsigned long *flags)
{
	return raw_spin_trylock_irqsave(lock, *flags);
}

void loga_model_raw_unlock(raw_spinlock_t *lock, unsigned long flags)
{
	raw_spin_unlock_irqrestore(lock, flags);
}

void loga_model_raw_assert_held(raw_spinlock_t *lock)
{
	lockdep_assert_held(lock);
}
