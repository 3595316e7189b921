// SPDX-License-Identifier: GPL-2.0
/*
 * Stands in for NVIDIA's driver behind ioctl(): grants RM_ALLOC, and answers MAP_MEMORY
 * with the address that the caller wrote into its structure. Loaded after hold.c.
 */

#include <stdarg.h>
#include <sys/ioctl.h>

int ioctl(int fd, unsigned long request, ...)
{
	unsigned int nr = request & 0xff;
	int granted = nr == 0x2b || nr == 0x4e;

	(void)fd;
	return granted ? 0 : -1;
}
