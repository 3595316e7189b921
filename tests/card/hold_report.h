/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clock, the lock and the report of hold.c. All of it may be called by a handler
 * of SIGSEGV: nothing is allocated, and a thread that holds the lock is interrupted
 * by no signal but those that its own instructions raise.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Bytes of the lines that are written while the program runs; the tables at its end are bounded. */
#define EVENTS_MAX (512u << 10)
/* The report gets a number of a file that no program expects to be its next. */
#define REPORT_NUMBER 513

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

#define BIT(signal) (1ull << ((signal) - 1))
/* Signals that wait while a thread holds the lock: all but those of its own instructions. */
#define LATER (~(BIT(SIGSEGV) | BIT(SIGTRAP) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE)))

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NS_PER_S + time.tv_nsec;
}

/* Blocks these signals of the calling thread and no others; answers which it blocked before. */
static uint64_t block(uint64_t signals)
{
	uint64_t before = 0;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &signals, &before, sizeof(before));
	return before;
}

/* The one lock: of the tables, of the rights of mappings, and of the report. */
static atomic_int locked;

static void grab(void)
{
	while (atomic_exchange(&locked, 1))
		sched_yield();
}

static void drop(void)
{
	atomic_store(&locked, 0);
}

static uint64_t enter(void)
{
	uint64_t before = block(LATER);

	grab();
	return before;
}

static void leave(uint64_t before)
{
	drop();
	block(before);
}

/* Grows with everything that a waiting thread may wait for. */
static _Atomic uint32_t changes;

static void changed(void)
{
	atomic_fetch_add(&changes, 1);
	syscall(SYS_futex, &changes, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Waits for a change since `seen`, or until `until`; 0 is never. A signal ends it, too. */
static void wait_for_change(uint32_t seen, uint64_t until)
{
	uint64_t time = now(), left = until > time ? until - time : 0;
	struct timespec limit = { left / NS_PER_S, left % NS_PER_S };

	if (!until || left)
		syscall(SYS_futex, &changes, FUTEX_WAIT_PRIVATE, seen, until ? &limit : NULL, NULL, 0);
}

/* Copies what may not be there; answers how much was. */
static size_t peek(const void *from, void *to, size_t length)
{
	struct iovec here = { to, length }, there = { (void *)from, length };
	ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

	return copied < 0 ? 0 : copied;
}

static uint32_t word(const uint8_t *bytes, size_t at)
{
	uint32_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

/* A line of the report while it is made: KIND NAME=VALUE ... */
struct line {
	char text[512];
	size_t used;
};

static void add(struct line *line, const char *text)
{
	/* The end of the line has a place of its own. */
	while (*text && line->used < sizeof(line->text) - 1)
		line->text[line->used++] = *text++;
}

static struct line kind(const char *kind)
{
	struct line line = { .used = 0 };

	add(&line, kind);
	return line;
}

static void words(struct line *line, const char *name, const char *value)
{
	add(line, " ");
	add(line, name);
	add(line, "=");
	add(line, value);
}

static void number(struct line *line, const char *name, uint64_t value)
{
	char digits[24], *at = digits + sizeof(digits) - 1;

	*at = 0;
	do {
		*--at = '0' + value % 10;
		value /= 10;
	} while (value);
	words(line, name, at);
}

static void bytes(struct line *line, const char *name, const uint8_t *bytes, size_t length)
{
	static const char digits[] = "0123456789abcdef";
	char pair[3] = { 0 };

	words(line, name, "");
	for (size_t i = 0; i < length; i++) {
		pair[0] = digits[bytes[i] >> 4];
		pair[1] = digits[bytes[i] & 15];
		add(line, pair);
	}
}

/* Under the lock: the file, and what is in it. */
static int report = -1;
static size_t reported;
static int report_is_full;

static void write_line(struct line *line)
{
	const struct timespec at_once = { 0, 0 };
	sigset_t cost, waiting;

	if (report < 0)
		return;
	line->text[line->used++] = '\n';
	sigpending(&waiting);
	if (write(report, line->text, line->used) == (ssize_t)line->used)
		return;
	/* The file takes no more. The program does not get the signal that the write has cost. */
	report = -1;
	sigemptyset(&cost);
	sigaddset(&cost, SIGXFSZ);
	if (!sigismember(&waiting, SIGXFSZ))
		sigtimedwait(&cost, NULL, &at_once);
}

/* Under the lock: writes a line about what happened. */
static void say(struct line *line)
{
	struct line last = kind("full");

	if (report_is_full)
		return;
	reported += line->used + 1;
	report_is_full = reported > EVENTS_MAX;
	write_line(report_is_full ? &last : line);
}

/* Opens the report of this process: FILE.PID. */
static void open_report(const char *file)
{
	char name[4096];
	int low;

	snprintf(name, sizeof(name), "%s.%d", file, getpid());
	low = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0666);
	if (low < 0) {
		dprintf(STDERR_FILENO, "HOLD_LOG: %s: %s\n", name, strerror(errno));
		return;
	}
	report = fcntl(low, F_DUPFD_CLOEXEC, REPORT_NUMBER);
	if (report < 0)
		report = low;
	else
		syscall(SYS_close, low);
}
