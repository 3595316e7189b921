// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the doorbells of a program inaccessible for a while and lets its stores wait,
 * as LoGA's gate in the kernel does; counts them; leaves some out and makes them good
 * later. README.md beside this file has the command, the variables and the report.
 * Loaded with LD_PRELOAD; needs the headers hold_*.h beside it to compile, and x86-64.
 *
 * A doorbell is a mapping of 64 KiB of a node nvidiaN that a program may write and not
 * read, or any that the calls before it name as one. What is not seen, or differs:
 *
 * - While one store runs alone, or one is made good, its mapping is open: stores of
 *   other threads in that instant are carried out and not counted.
 * - Calls that do not go through the C library, and its calls of itself.
 * - Stores of the kernel (a read() into a doorbell) fail instead of waiting.
 * - A program that overflows its stack ends with SIGSEGV before its handler for that.
 *
 * The child of a fork holds nothing. A program that it executes loads the library
 * again, as does every program with its environment, and has a report of its own.
 */

#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#ifndef __x86_64__
#error "hold.c reads instructions of x86-64"
#endif

#include "hold_report.h"
#include "hold_store.h"
#include "hold_gate.h"
#include "hold_rings.h"
#include "hold_faults.h"
#include "hold_witness.h"
#include "hold_threads.h"

#define DOORBELL_BYTES 0x10000
#define PAGE ((uintptr_t)4096)
#define PATH 4096
/* TIMEOUT: at the end other threads' faults get this time to reach our handler. */
#define SETTLE_AT_END_MS 20

static char nodes[PATH] = "/dev/nvidia";
/* What the forking thread had blocked. */
static uint64_t forking;

/* The end of a range whose length the kernel rounds up to pages. */
static uintptr_t end_of(const void *at, size_t length)
{
	return ((uintptr_t)at + length + PAGE - 1) & ~(PAGE - 1);
}

/* The name of a node at the end of its path, or NULL for other files. */
static const char *node(int fd, char path[PATH])
{
	char link[64];
	const char *last;
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, PATH - 1);
	if (length < 0)
		return NULL;
	path[length] = 0;
	last = strrchr(path, '/');
	return !last || strncmp(path, nodes, strlen(nodes)) ? NULL : last + 1;
}

static int is_card(const char *name)
{
	static const char begin[] = "nvidia";
	size_t length = strlen(begin);

	return !strncmp(name, begin, length) && name[length] &&
	       strspn(name + length, "0123456789") == strlen(name + length);
}

/* Under the lock: whether a mapping that was just made is a doorbell. */
static int is_doorbell(size_t length, int rights, int flags, int fd, off_t offset, enum bar *bar)
{
	int named = take_witness(fd, bar);

	if ((flags & MAP_TYPE) == MAP_PRIVATE || !(rights & PROT_WRITE))
		return 0;
	return named || (length == DOORBELL_BYTES && rights == PROT_WRITE && !offset);
}

void *mmap(void *at, size_t length, int rights, int flags, int fd, off_t offset)
{
	int card = 0, doorbell = 0, error = errno;
	enum bar bar = UNKNOWN;
	char path[PATH];
	const char *name;
	uint64_t before;
	void *result;

	if (looking && fd >= 0) {
		name = node(fd, path);
		card = name && is_card(name);
		errno = error;
	}
	if (!looking || (!card && !(flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))))
		return BEHIND(mmap)(at, length, rights, flags, fd, offset);
	before = enter();
	result = BEHIND(mmap)(at, length, rights, flags, fd, offset);
	error = errno;
	if (result != MAP_FAILED) {
		forget((uintptr_t)result, end_of(result, length));
		doorbell = card && is_doorbell(length, rights, flags, fd, offset, &bar);
	}
	if (doorbell) {
		if (!first_mapping)
			first_mapping = now();
		if (reasons)
			arm();
		add_mapping((uintptr_t)result, length, rights, rights, bar);
	}
	leave(before);
	if (doorbell)
		start_threads();
	errno = error;
	return result;
}

void *mmap64(void *at, size_t length, int rights, int flags, int fd, off_t offset)
{
	return mmap(at, length, rights, flags, fd, offset);
}

int munmap(void *at, size_t length)
{
	uint64_t before;
	int result;

	if (!looking)
		return BEHIND(munmap)(at, length);
	before = enter();
	result = BEHIND(munmap)(at, length);
	if (!result)
		forget((uintptr_t)at, end_of(at, length));
	leave(before);
	return result;
}

/* What is moved is a mapping of its own with its rights. */
static void moved(const struct mapping *old, uintptr_t from, size_t length, uintptr_t to,
		  size_t wanted)
{
	struct mapping copy = *old;
	struct line line = kind("moved");

	number(&line, "number", number_of(old));
	number(&line, "to", mapped);
	say(&line);
	if (length)
		forget(from, from + length);
	forget(to, to + wanted);
	add_mapping(to, wanted, copy.has, copy.rights, copy.bar);
}

void *mremap(void *at, size_t length, size_t wanted, int flags, ...)
{
	const struct mapping *old;
	uint64_t before;
	va_list arguments;
	void *to, *result;

	va_start(arguments, flags);
	to = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
	va_end(arguments);
	if (!looking)
		return BEHIND(mremap)(at, length, wanted, flags, to);
	before = enter();
	old = find((uintptr_t)at);
	result = BEHIND(mremap)(at, length, wanted, flags, to);
	if (result != MAP_FAILED && old)
		moved(old, (uintptr_t)at, length, (uintptr_t)result, wanted);
	else if (result != MAP_FAILED)
		forget((uintptr_t)result, end_of(result, wanted));
	leave(before);
	return result;
}

int mprotect(void *at, size_t length, int rights)
{
	uint64_t before;
	int result;

	if (!looking)
		return BEHIND(mprotect)(at, length, rights);
	before = enter();
	result = BEHIND(mprotect)(at, length, rights);
	if (!result)
		wanted_rights((uintptr_t)at, end_of(at, length), rights);
	leave(before);
	return result;
}

int ioctl(int fd, unsigned long request, ...)
{
	size_t size = request >> 16 & 0x3fff;
	uint8_t call[MAP_MEMORY_BYTES];
	int result, error = errno;
	char path[PATH];
	uint64_t before;
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	result = BEHIND(ioctl)(fd, request, argument);
	if (!looking || result || !is_witnessed(request & 0xff, size) || !node(fd, path))
		return result;
	if (peek(argument, call, size) == size) {
		before = enter();
		witnessed(request & 0xff, call, size);
		leave(before);
	}
	errno = error;
	return result;
}

/* A list of milliseconds, divided by commas; without one it says so and ends. */
static int parse(const char *name, struct list *list)
{
	const char *text = getenv(name);
	char *end;

	for (list->count = 0; text && list->count < HOLDS_MAX; text = end + 1) {
		unsigned long value = strtoul(text, &end, 10);

		if (end == text || *text == '-' || value > MS_MAX || (*end && *end != ','))
			break;
		list->ms[list->count++] = value;
		if (!*end)
			return 1;
	}
	if (text)
		dprintf(STDERR_FILENO, "%s: %s: up to %d numbers up to %d, nothing is held\n", name,
			getenv(name), HOLDS_MAX, MS_MAX);
	return !text;
}

/* One number, or what it is without one. */
static int parse_one(const char *name, uint64_t *value, uint64_t least)
{
	struct list list;

	if (!parse(name, &list))
		return 0;
	if (list.count)
		*value = list.ms[0] < least ? least : list.ms[0];
	return 1;
}

/* Another thread's store may need the lock once more, but no thread keeps it over a fork. */
static void before_fork(void)
{
	uint64_t before = enter();

	forking = before;
}

static void after_fork(void)
{
	leave(forking);
}

static void in_child(void)
{
	reasons = 0;
	report = -1;
	apply();
	disarm();
	mapped = waiting = 0;
	looking = has_holder = has_ringer = 0;
	leave(forking);
}

__attribute__((constructor)) static void begin(void)
{
	const char *file = getenv("HOLD_LOG"), *wanted = getenv("HOLD_NODES");
	struct line line = kind("begin");
	uint64_t count = 0;

	if (!parse("HOLD_MS", &holds) || !parse("HOLD_AFTER_MS", &pauses) ||
	    !parse_one("HOLD_COUNT", &count, 0) || !parse_one("HOLD_SWALLOW", &swallow.count, 0) ||
	    !parse_one("HOLD_SWALLOW_FROM", &swallow.from, 1) ||
	    !parse_one("HOLD_SWALLOW_EVERY", &swallow.every, 1) ||
	    !parse_one("HOLD_SWALLOW_MS", &swallow.ms, 0))
		return;
	if (!file && !count && !holds.count && !swallow.count)
		return;
	if (!pauses.count)
		pauses = (struct list){ { 1000 }, 1 };
	if (swallow.count > SWALLOWED_MAX)
		swallow.count = SWALLOWED_MAX;
	reasons = (count || swallow.count ? COUNTING : 0) | (holds.count ? AWAITING : 0);
	if (wanted)
		snprintf(nodes, sizeof(nodes), "%s", wanted);
	if (file)
		open_report(file);
	number(&line, "pid", getpid());
	number(&line, "at", now());
	number(&line, "count", count);
	number(&line, "holds", holds.count);
	number(&line, "swallow", swallow.count);
	say(&line);
	pthread_atfork(before_fork, after_fork, in_child);
	looking = 1;
}

static void say_mappings(void)
{
	for (unsigned int i = 0; i < mapped; i++) {
		struct line line = kind("mapping");

		number(&line, "number", i);
		words(&line, "bar", bar_name(mappings[i].bar));
		number(&line, "length", mappings[i].length);
		number(&line, "stores", mappings[i].stores);
		number(&line, "reads", mappings[i].reads);
		write_line(&line);
	}
}

/* Everything is the program's again, and the report has its tables. */
__attribute__((destructor)) static void end(void)
{
	struct timespec settle = { 0, SETTLE_AT_END_MS * NS_PER_MS };
	struct line line = kind("end");
	uint64_t before;

	if (!looking)
		return;
	atomic_store(&ending, 1);
	changed();
	if (has_holder)
		pthread_join(holder, NULL);
	if (has_ringer)
		pthread_join(ringer, NULL);
	before = enter();
	reasons = 0;
	apply();
	changed();
	leave(before);
	if (armed)
		nanosleep(&settle, NULL);
	before = enter();
	looking = 0;
	disarm();
	say_mappings();
	say_tokens();
	number(&line, "at", now());
	write_line(&line);
	leave(before);
}
