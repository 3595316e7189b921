// SPDX-License-Identifier: GPL-2.0
/*
 * What Rust cannot name: module parameters that change at run time, and
 * inline functions and macros that the kernel's bindings leave out.
 */

#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

/* Defined in glue/params.rs. */
int loga_model_set_lost(bool lost);
int loga_model_set_registers(unsigned int what);

/* Defined in glue/machine.rs. */
void loga_model_expired(struct hrtimer *timer);

/* Called by the Rust files. */
void loga_model_timer_setup(struct hrtimer *timer);
void loga_model_raw_lock_init(raw_spinlock_t *lock, const char *name, struct lock_class_key *key);
unsigned long loga_model_raw_lock(raw_spinlock_t *lock);
bool loga_model_raw_trylock(raw_spinlock_t *lock, unsigned long *flags);
void loga_model_raw_unlock(raw_spinlock_t *lock, unsigned long flags);
void loga_model_raw_assert_held(raw_spinlock_t *lock);
void *loga_model_vmalloc_user(unsigned long size);
void loga_model_set_uncached(struct vm_area_struct *vma);
bool loga_model_is_cow(struct vm_area_struct *vma);

/* A parameter with its default and mode; glue/params.rs reads the variable. */
#define PARAM(name, value, mode, text) \
	extern unsigned int loga_model_##name; \
	unsigned int loga_model_##name = value; \
	module_param_named(name, loga_model_##name, uint, mode); \
	MODULE_PARM_DESC(name, text)

PARAM(switch_us, 5, 0444, "cost of a context switch in us");
PARAM(timeslice_us, 1048, 0444, "timeslice in us, 0: switch after every command");
PARAM(doorbell_us, 5, 0444, "how often an idle engine scans for work, in us");
PARAM(snoop_us, 20, 0444, "how often a busy engine scans for channels that got work, in us");
PARAM(branch, 470, 0444, "driver branch to imitate: 340, 470 or 550");
PARAM(log_entries, 65536, 0444, "intervals kept in the log");
PARAM(nodes, 1, 0444, "0: only the PCI device, so that a real driver can have major 195");
PARAM(gpus, 1, 0444, "number of cards, 1 to 6");
PARAM(device, 0x100c, 0444, "PCI device id of the cards; PMC_BOOT_0 and PMC_BOOT_42 follow for known ones");
PARAM(boot_0, 0, 0444, "what PMC_BOOT_0 reads, 0: as the device's");
PARAM(boot_42, 0, 0444, "what PMC_BOOT_42 reads, 0: as the device's");
PARAM(turing, 0, 0444, "cards whose PMC_BOOT_0 names a Turing chip, one bit each");
PARAM(fail_mmap, 0, 0644, "1: mmap fails with ENXIO, 2: with a positive RM status");
PARAM(fail_open, 0, 0644, "1: open fails with EIO");
PARAM(fail_ioctl, 0, 0644, "number of the call that fails with EIO, such as 0x2b, 0: none");
PARAM(fail_after, 0, 0644, "1: what fails does its work first");

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

void loga_model_set_uncached(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
}

bool loga_model_is_cow(struct vm_area_struct *vma)
{
	/* As vma_is_cow_mapping(), which is there from Linux 7.3 on. */
	return (vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE;
}

static enum hrtimer_restart expired(struct hrtimer *timer)
{
	loga_model_expired(timer);
	/* It was started again if there is a next event. */
	return HRTIMER_NORESTART;
}

/* The timer of a card: its callback runs in hard interrupt context. */
void loga_model_timer_setup(struct hrtimer *timer)
{
	hrtimer_setup(timer, expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
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
