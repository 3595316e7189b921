/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs for the tests of hold.c have in common: a doorbell, which is an
 * ordinary file here, a second view of it, and what is to be read of the process.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define BYTES 0x10000
#define RING 0x90
/* A program that waits in vain ends with this status. */
#define TOO_LATE 70
#define TOO_LATE_S 120

static const char *path;
static volatile const uint32_t *view;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* A mapping of the node; the file is closed at once, as CUDA does. */
static char *map(int rights)
{
	int fd = open(path, O_RDWR);
	char *at = mmap(NULL, BYTES, rights, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		exit(1);
	close(fd);
	return at;
}

static void store(char *doorbell, unsigned int offset, uint32_t value)
{
	*(volatile uint32_t *)(doorbell + offset) = value;
}

static uint32_t seen(unsigned int offset)
{
	return view[offset / 4];
}

/* One look of a loop that waits. */
static void look_again(void)
{
	static uint64_t limit;

	if (!limit)
		limit = now() + TOO_LATE_S * 1000000000ull;
	if (now() > limit)
		_exit(TOO_LATE);
	usleep(1000);
}

/* Whether this process's report has a line that begins so. */
static int said(const char *begin)
{
	char name[4096], line[600];
	FILE *report;
	int found = 0;

	snprintf(name, sizeof(name), "%s.%d", getenv("HOLD_LOG"), getpid());
	report = fopen(name, "r");
	while (report && !found && fgets(line, sizeof(line), report))
		found = !strncmp(line, begin, strlen(begin));
	if (report)
		fclose(report);
	return found;
}

/* Whether the rights of a mapping are these, as the kernel shows them. */
static int has_rights(const char *at, const char *rights)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096], wanted[64];
	int found = 0;

	snprintf(wanted, sizeof(wanted), "%lx-%lx %s", (long)at, (long)at + BYTES, rights);
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = !strncmp(line, wanted, strlen(wanted));
	if (maps)
		fclose(maps);
	return found;
}

static void await_rights(const char *at, const char *rights)
{
	while (!has_rights(at, rights))
		look_again();
}

/* Whether a thread of this process waits in the kernel for a word to change. */
static int sleeps_on_a_futex(pid_t thread)
{
	char name[64];
	long call = -1;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/syscall", thread);
	file = fopen(name, "r");
	if (file && fscanf(file, "%ld", &call) != 1)
		call = -1;
	if (file)
		fclose(file);
	return call == SYS_futex;
}
