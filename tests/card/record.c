// SPDX-License-Identifier: GPL-2.0
/*
 * Records what a program and its libraries ask of NVIDIA's nodes: the calls that
 * LoGA understands, or will have to understand on later cards. README.md beside
 * this file has the command and the format. Loaded with LD_PRELOAD; writes to the
 * file that RECORD names, one for each process.
 *
 * No name and no number of a card, a host or a user is kept: parameters only of
 * the classes and commands below, whose structures have handles, sizes, addresses
 * and flags, and of those no byte behind their end.
 *
 * The program runs as without it. Signals wait while a line is written, and where
 * the file takes no more, recording stops.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NR_FREE 0x29
#define NR_CONTROL 0x2a
#define NR_ALLOC 0x2b
#define NR_MAP_MEMORY 0x4e
#define NR_UNMAP_MEMORY 0x4f
#define UVM_REGISTER_CHANNEL 27

/* Bytes that are kept of what a call points at, at most. */
#define POINTED 1024
/* Bytes of UVM_REGISTER_CHANNEL from its handles on: the UUID before them names the card. */
#define UVM_SKIP 16
#define UVM_BYTES 56
/* Bytes of a structure of a call. */
#define CALL 128
/* Bytes of a file: a program that calls all day fills no disk. */
#define RECORD_MAX (4u << 20)
/* A line: two structures and twice what they point at, in digits, and what else it says. */
#define LINE (4 * (CALL + POINTED) + 512)
/* Path of a node. */
#define PATH 512
/* The file gets a number that no program expects to be its next. */
#define FILE_NUMBER 512

/* The function of this name behind ours: of the C library, or of another library like this one. */
#define BEHIND(name)                                                                            \
	({                                                                                      \
		static __typeof__(name) *behind;                                                \
		if (!behind)                                                                    \
			behind = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                   \
		behind;                                                                         \
	})

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock: the file and the bytes in it, whether it is over, the line that is made. */
static int file = -1, over;
static size_t written, used;
static char line[LINE];
/* What a thread was like before it took the lock. */
struct before {
	sigset_t signals;
	int error;
};
static struct before forking;

static struct before begin(void)
{
	struct before before = { .error = errno };
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before.signals);
	pthread_mutex_lock(&lock);
	used = 0;
	return before;
}

static void end(struct before before)
{
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, &before.signals, NULL);
	errno = before.error;
}

/* The last word about a file; lines that are whole stay in it. */
static void stop(const char *name, int error)
{
	over = 1;
	if (file >= 0 && ftruncate(file, written))
		errno = 0;
	dprintf(STDERR_FILENO, "RECORD: %s: %s, recording stops\n", name, strerror(error));
}

static int start(const char *name)
{
	int low = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (low < 0)
		return 0;
	file = fcntl(low, F_DUPFD_CLOEXEC, FILE_NUMBER);
	if (file < 0)
		file = low;
	else
		BEHIND(close)(low);
	return 1;
}

/* Takes back the signal that a write has cost. */
static void forget_signals(const sigset_t *waiting)
{
	const int costs[] = { SIGXFSZ, SIGPIPE };
	const struct timespec at_once = { 0, 0 };
	sigset_t cost;

	for (int i = 0; i < 2; i++) {
		sigemptyset(&cost);
		sigaddset(&cost, costs[i]);
		if (!sigismember(waiting, costs[i]))
			sigtimedwait(&cost, NULL, &at_once);
	}
}

/* Writes the line that was made, or that it is the last one. */
static void finish(void)
{
	static const char last[] = "full\n";
	const char *wanted = getenv("RECORD");
	char name[4096];
	sigset_t waiting;
	ssize_t done;

	if (over)
		return;
	sigpending(&waiting);
	snprintf(name, sizeof(name), "%s.%d", wanted ? wanted : "record", getpid());
	if (file < 0 && !start(name)) {
		stop(name, errno);
		return;
	}
	if (written + used + strlen(last) > RECORD_MAX) {
		used = strlen(last);
		memcpy(line, last, used);
		over = 1;
	}
	done = write(file, line, used);
	if (done != (ssize_t)used)
		stop(name, done < 0 ? errno : ENOSPC);
	else
		written += used;
	forget_signals(&waiting);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line + used, sizeof(line) - used, format, arguments);
	va_end(arguments);
	if (length > 0 && (size_t)length < sizeof(line) - used)
		used += length;
}

static void put(const char *name, const uint8_t *bytes, size_t length)
{
	if (!length)
		return;
	say(" %s=", name);
	for (size_t i = 0; i < length; i++)
		say("%02x", bytes[i]);
}

/* The name of a node at the end of its path, or NULL for other files. */
static const char *named(const char *path)
{
	const char *nodes = getenv("RECORD_NODES"), *last = strrchr(path, '/');

	if (!nodes)
		nodes = "/dev/nvidia";
	return !last || strncmp(path, nodes, strlen(nodes)) ? NULL : last + 1;
}

/* The node behind a file, or NULL. */
static const char *node(int fd, char path[PATH])
{
	int error = errno;
	char link[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, PATH - 1);
	errno = error;
	if (length < 0)
		return NULL;
	path[length] = 0;
	return named(path);
}

/* Copies what may not be there; answers how much was. */
static size_t peek(const void *from, uint8_t *to, size_t length)
{
	struct iovec here = { to, length }, there = { (void *)from, length };
	int error = errno;
	ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

	errno = error;
	return copied < 0 ? 0 : copied;
}

static uint32_t word(const uint8_t *bytes, size_t at)
{
	uint32_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

/* Control commands about channels: which they are, and when they may run. */
static int about_channels(uint32_t command)
{
	return command == 0x80170d || command == 0xc36f0108 || command == 0x2080110b ||
	       command >> 16 == 0xa06c || command >> 16 == 0xa06f;
}

/*
 * Bytes that are kept of the parameters of a command: SCHEDULE, BIND, timeslices,
 * PREEMPT, the number of a group, INTERLEAVE_LEVEL; of a channel SCHEDULE, BIND;
 * tokens, DISABLE_CHANNELS and the list of channels.
 */
static size_t kept_of_command(uint32_t command, size_t length)
{
	static const uint32_t commands[] = {
		0xa06c0101, 0xa06c0102, 0xa06c0103, 0xa06c0104, 0xa06c0105, 0xa06c0106, 0xa06c0107,
		0xa06c0108, 0xa06f0103, 0xa06f0104, 0xc36f0108, 0x2080110b, 0x0080170d,
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (command == commands[i])
			return length < POINTED ? length : POINTED;
	return 0;
}

/* Bytes that are kept of the parameters of an allocation: not more than its structure has. */
static size_t kept_of_class(uint32_t class)
{
	if (class == 0xa06c) /* group of channels */
		return 20;
	if (class == 0x40 || class == 0x3e) /* memory of the card and of the host */
		return 64;
	if (class < 0x9000 || class > 0xffff)
		return 0;
	switch (class & 0xff) {
	case 0x6f: /* channel, as branches up to 595 have it */
		return 368;
	case 0x61: /* doorbells */
		return class < 0xc361 ? 0 : 2;
	case 0xc0: /* compute */
		return 16;
	case 0xb5: /* copy engine */
		return 8;
	}
	return 0;
}

/* Where the parameters of a call are, and how much of them is kept. */
static size_t parameters(unsigned int nr, const uint8_t *in, size_t size, const void **at)
{
	size_t kept = 0, has;

	if (nr == NR_CONTROL && size >= 32)
		kept = kept_of_command(word(in, 8), word(in, 24));
	else if (nr == NR_ALLOC && size >= 24)
		kept = kept_of_class(word(in, 12));
	if (!kept)
		return 0;
	memcpy(at, in + 16, sizeof(*at));
	has = nr == NR_ALLOC && size >= 48 ? word(in, 32) : 0;
	return has && has < kept ? has : kept;
}

static int register_channel(int fd, unsigned long request, void *argument)
{
	uint8_t in[UVM_BYTES];
	size_t has = peek((char *)argument + UVM_SKIP, in, UVM_BYTES - UVM_SKIP);
	int result = BEHIND(ioctl)(fd, request, argument);
	struct before before = begin();

	say("uvm nr=%u", UVM_REGISTER_CHANNEL);
	put("in", in, has);
	say("\n");
	finish();
	end(before);
	return result;
}

static int recorded(int fd, unsigned long request, void *argument, const char *name)
{
	uint8_t in[CALL], out[CALL], pointed[POINTED], answer[POINTED];
	size_t size = request >> 16 & 0x3fff, has = peek(argument, in, size), more = 0;
	unsigned int nr = request & 0xff;
	int kept = has == size &&
		   (nr == NR_FREE || nr == NR_ALLOC || nr == NR_MAP_MEMORY || nr == NR_UNMAP_MEMORY ||
		    (nr == NR_CONTROL && size >= 32 && about_channels(word(in, 8))));
	const void *behind = NULL;
	struct before before;
	int result;

	if (kept)
		more = parameters(nr, in, size, &behind);
	if (more)
		more = peek(behind, pointed, more);
	result = BEHIND(ioctl)(fd, request, argument);
	if (!kept)
		return result;
	before = begin();
	say("call node=%s nr=%02x size=%zu result=%d", name, nr, size, result);
	put("in", in, has);
	put("out", out, peek(argument, out, size));
	put("params", pointed, more);
	if (nr == NR_CONTROL)
		put("answer", answer, peek(behind, answer, more));
	say("\n");
	finish();
	end(before);
	return result;
}

int ioctl(int fd, unsigned long request, ...)
{
	size_t size = request >> 16 & 0x3fff;
	char path[PATH];
	const char *name = node(fd, path);
	int uvm = name && !strncmp(name, "nvidia-uvm", 10);
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (uvm && request == UVM_REGISTER_CHANNEL)
		return register_channel(fd, request, argument);
	if (!name || uvm || size > CALL)
		return BEHIND(ioctl)(fd, request, argument);
	return recorded(fd, request, argument, name);
}

void *mmap(void *at, size_t length, int rights, int flags, int fd, off_t offset)
{
	char path[PATH];
	const char *name = fd < 0 ? NULL : node(fd, path);
	void *result = BEHIND(mmap)(at, length, rights, flags, fd, offset);
	struct before before;

	if (name) {
		before = begin();
		say("mmap node=%s fd=%d length=%zx rights=%x flags=%x offset=%lx failed=%d\n", name,
		    fd, length, rights, flags, (long)offset, result == MAP_FAILED);
		finish();
		end(before);
	}
	return result;
}

void *mmap64(void *at, size_t length, int rights, int flags, int fd, off_t offset)
{
	return mmap(at, length, rights, flags, fd, offset);
}

int close(int fd)
{
	char path[PATH];
	const char *name;
	struct before before;

	if (fd >= 0 && fd == file) {
		/* A program that closes all its files. */
		errno = EBADF;
		return -1;
	}
	name = node(fd, path);
	if (name) {
		before = begin();
		say("close node=%s fd=%d\n", name, fd);
		finish();
		end(before);
	}
	return BEHIND(close)(fd);
}

static void before_fork(void)
{
	struct before before = begin();

	forking = before;
}

static void after_fork(void)
{
	end(forking);
}

/* A child has a file of its own. */
static void in_child(void)
{
	if (file >= 0)
		BEHIND(close)(file);
	file = -1;
	written = over = 0;
	end(forking);
}

__attribute__((constructor)) static void loaded(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* The mappings of nodes that are left at the end. */
__attribute__((destructor)) static void mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char text[PATH + 128], rights[8], path[PATH];
	struct before before;

	while (maps && fgets(text, sizeof(text), maps)) {
		path[0] = 0;
		if (sscanf(text, "%lx-%lx %7s %*s %*s %*s %511s", &from, &to, rights, path) != 4 ||
		    !named(path))
			continue;
		before = begin();
		say("left node=%s length=%lx rights=%s\n", named(path), to - from, rights);
		finish();
		end(before);
	}
	if (maps)
		fclose(maps);
}
