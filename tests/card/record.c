// SPDX-License-Identifier: GPL-2.0
/*
 * Records what a program and its libraries ask of NVIDIA's nodes: the calls that
 * LoGA understands, or will have to understand on later cards. README.md beside
 * this file has the command and the format. Loaded with LD_PRELOAD; writes to the
 * file that RECORD names.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NR_FREE 0x29
#define NR_CONTROL 0x2a
#define NR_ALLOC 0x2b
#define NR_MAP_MEMORY 0x4e
#define NR_UNMAP_MEMORY 0x4f
#define UVM_REGISTER_CHANNEL 27

/* Bytes that are kept of what a call points at. */
#define POINTED 64
/* Bytes of UVM_REGISTER_CHANNEL from its handles on: the UUID before them names the card. */
#define UVM_SKIP 16
#define UVM_BYTES 56

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A file of its own for each process. */
static FILE *record(void)
{
	static FILE *file;
	char name[4096];

	if (!file) {
		const char *wanted = getenv("RECORD");

		snprintf(name, sizeof(name), "%s.%d", wanted ? wanted : "record", getpid());
		file = fopen(name, "we");
		if (!file) {
			fprintf(stderr, "RECORD: %s: %s\n", name, strerror(errno));
			abort();
		}
		setvbuf(file, NULL, _IOLBF, 0);
	}
	return file;
}

/* The node behind a file, or NULL. */
static const char *node(int fd)
{
	static __thread char path[128];
	char link[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return NULL;
	path[length] = 0;
	return strncmp(path, "/dev/nvidia", 11) ? NULL : path + 5;
}

/* Copies what may not be there; answers how much was. */
static size_t peek(const void *from, uint8_t *to, size_t length)
{
	struct iovec here = { to, length }, there = { (void *)from, length };
	ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

	return copied < 0 ? 0 : copied;
}

static void put(const char *name, const uint8_t *bytes, size_t length)
{
	if (!length)
		return;
	fprintf(record(), " %s=", name);
	for (size_t i = 0; i < length; i++)
		fprintf(record(), "%02x", bytes[i]);
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
	return command == 0x80170d || command == 0xc36f0108 || command >> 16 == 0xa06c ||
	       command >> 16 == 0xa06f;
}

int ioctl(int fd, unsigned long request, ...)
{
	uint8_t in[128], out[128], pointed[POINTED], answer[POINTED];
	size_t size = request >> 16 & 0x3fff, has, more = 0;
	unsigned int nr = request & 0xff;
	const char *path = node(fd);
	const void *behind = NULL;
	int uvm = path && !strncmp(path, "nvidia-uvm", 10), kept;
	va_list arguments;
	void *argument;
	long result;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (uvm && request == UVM_REGISTER_CHANNEL) {
		has = peek((char *)argument + UVM_SKIP, in, UVM_BYTES - UVM_SKIP);
		result = syscall(SYS_ioctl, fd, request, argument);
		pthread_mutex_lock(&lock);
		fprintf(record(), "uvm nr=%u", UVM_REGISTER_CHANNEL);
		put("in", in, has);
		fputc('\n', record());
		pthread_mutex_unlock(&lock);
		return result;
	}
	if (!path || uvm || size > sizeof(in))
		return syscall(SYS_ioctl, fd, request, argument);
	has = peek(argument, in, size);
	kept = has == size && (nr == NR_FREE || nr == NR_ALLOC || nr == NR_MAP_MEMORY ||
			       nr == NR_UNMAP_MEMORY ||
			       (nr == NR_CONTROL && size >= 32 && about_channels(word(in, 8))));
	if (kept && (nr == NR_ALLOC || nr == NR_CONTROL) && size >= 24)
		memcpy(&behind, in + 16, sizeof(behind));
	if (behind) {
		size_t length = nr == NR_CONTROL ? word(in, 24) : POINTED;

		more = peek(behind, pointed, length < POINTED ? length : POINTED);
	}
	result = syscall(SYS_ioctl, fd, request, argument);
	if (kept) {
		int error = errno;

		pthread_mutex_lock(&lock);
		fprintf(record(), "call node=%s nr=%02x size=%zu result=%ld", path, nr, size, result);
		put("in", in, has);
		put("out", out, peek(argument, out, size));
		put("params", pointed, more);
		if (nr == NR_CONTROL)
			put("answer", answer, peek(behind, answer, more));
		fputc('\n', record());
		pthread_mutex_unlock(&lock);
		errno = error;
	}
	return result;
}

static void *map(void *at, size_t length, int rights, int flags, int fd, off_t offset)
{
	const char *path = fd < 0 ? NULL : node(fd);
	long result = syscall(SYS_mmap, at, length, rights, flags, fd, offset);

	if (path) {
		int error = errno;

		pthread_mutex_lock(&lock);
		fprintf(record(), "mmap node=%s fd=%d length=%zx rights=%x flags=%x offset=%lx failed=%d\n",
			path, fd, length, rights, flags, (long)offset, result == -1);
		pthread_mutex_unlock(&lock);
		errno = error;
	}
	return (void *)result;
}

void *mmap(void *at, size_t length, int rights, int flags, int fd, off_t offset)
{
	return map(at, length, rights, flags, fd, offset);
}

void *mmap64(void *at, size_t length, int rights, int flags, int fd, off_t offset)
{
	return map(at, length, rights, flags, fd, offset);
}

int close(int fd)
{
	const char *path = node(fd);

	if (path) {
		pthread_mutex_lock(&lock);
		fprintf(record(), "close node=%s fd=%d\n", path, fd);
		pthread_mutex_unlock(&lock);
	}
	return syscall(SYS_close, fd);
}

/* The mappings of nodes that are left at the end. */
__attribute__((destructor)) static void mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char line[512], rights[8], path[256];

	while (maps && fgets(line, sizeof(line), maps)) {
		path[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &from, &to, rights, path) == 4 &&
		    !strncmp(path, "/dev/nvidia", 11))
			fprintf(record(), "left node=%s length=%lx rights=%s\n", path + 5, to - from,
				rights);
	}
}
