// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the emulator's processors take turns more often.
 *
 * With a clock that counts instructions, QEMU runs one processor after the
 * other, each for half of the time to the next timer of the machine. While a
 * process on CPU 0 goes to sleep, a poller on CPU 1 stands still and sees what
 * the GPU did up to ten or twenty microseconds late: a tenth of a short kernel,
 * and different for each client. A timer that expires every few microseconds
 * bounds that. One of the HPET (IA-PC HPET Specification, 2.3), which a kernel
 * without ACPI leaves alone, counts without an interrupt, so that the guest
 * spends nothing on it.
 */

#include <linux/io.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>

#define HPET_BASE 0xfed00000
#define HPET_SIZE 0x400
/* General capabilities: the counter's period in fs in the upper half. */
#define HPET_PERIOD 0x004
#define HPET_CONFIG 0x010
#define HPET_CONFIG_ENABLE 0x1
/* Timer 0: periodic, and its comparator may be set; no interrupt. */
#define HPET_T0_CONFIG 0x100
#define HPET_T0_PERIODIC 0x48
#define HPET_T0_COMPARATOR 0x108

/* Called by glue/mod.rs. */
int loga_model_take_turns(bool on);

static unsigned int loga_model_turn_us;
module_param_named(turn_us, loga_model_turn_us, uint, 0444);
MODULE_PARM_DESC(turn_us, "longest turn of an emulated processor in us, 0: as the emulator likes");

/* Nothing but turn_us=0 on a machine without this timer. */
int loga_model_take_turns(bool on)
{
	u32 period_fs;
	void __iomem *hpet;
	u64 ticks;

	if (!loga_model_turn_us)
		return 0;
	if (loga_model_turn_us > 1000)
		return -EINVAL;
	hpet = ioremap(HPET_BASE, HPET_SIZE);
	if (!hpet)
		return -ENOMEM;
	period_fs = readl(hpet + HPET_PERIOD);
	if (!period_fs || period_fs > 100000000) {
		iounmap(hpet);
		return -ENODEV;
	}
	writel(0, hpet + HPET_CONFIG);
	if (on) {
		ticks = div_u64((u64)loga_model_turn_us * 1000000000, period_fs);
		writel(HPET_T0_PERIODIC, hpet + HPET_T0_CONFIG);
		writel(HPET_CONFIG_ENABLE, hpet + HPET_CONFIG);
		writel(ticks, hpet + HPET_T0_COMPARATOR);
	}
	iounmap(hpet);
	return 0;
}
