// SPDX-License-Identifier: GPL-2.0
/*
 * In the place of the load generator: "submits" kernels by storing to a doorbell that is an ordinary
 * file, and makes the calls of a program with one channel before. Its device looks at the doorbell,
 * and runs a kernel from then on; with a file `takes-along` in its folder it runs it at once.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define DOORBELL_BYTES 0x10000
#define DOORBELL 0x90
#define KERNEL_NS 1000000ull

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
	struct timespec time = { 0, ns };

	nanosleep(&time, NULL);
}

static int node(const char *end)
{
	const char *begin = getenv("HOLD_NODES");
	char path[4096];

	if (!begin)
		begin = getenv("RECORD_NODES");
	snprintf(path, sizeof(path), "%s%s", begin ? begin : "", end);
	return open(path, O_RDWR);
}

/* RM_ALLOC of a channel, its userdOffset being 0x2000. */
static void make_calls(void)
{
	uint64_t channel[46] = { 0 }, call[6] = { 0 };
	uint32_t *words = (uint32_t *)call;
	int control = node("ctl");

	channel[8] = 0x2000;
	words[3] = 0xc86f;
	call[2] = (uintptr_t)channel;
	ioctl(control, _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x2b, 48), call);
	close(control);
}

int main(int argc, char **argv)
{
	int device, i, takes_along = access("takes-along", F_OK) == 0;
	uint64_t count = 100000, end = ~0ull;
	volatile uint32_t *doorbell;
	off_t word = DOORBELL;
	FILE *log = NULL;

	for (i = 1; i + 1 < argc; i++) {
		if (!strcmp(argv[i], "--log"))
			log = fopen(argv[i + 1], "w");
		if (!strcmp(argv[i], "--count"))
			count = strtoull(argv[i + 1], NULL, 10);
		if (!strcmp(argv[i], "--seconds"))
			end = now() + strtoull(argv[i + 1], NULL, 10) * 1000000000ull;
	}
	/* Rings that are swallowed are among the first. */
	if (getenv("HOLD_SWALLOW"))
		count = 80;
	/* Two that are recorded run beside each other: each has a word of its own, or one would overwrite
	 * what the other waits to see. */
	if (getenv("RECORD"))
		word += getpid() % 1024 * sizeof(*doorbell);
	make_calls();
	device = node("0");
	if (device < 0 || ftruncate(device, DOORBELL_BYTES))
		return 1;
	doorbell = mmap(NULL, DOORBELL_BYTES, PROT_WRITE, MAP_SHARED, device, 0);
	if (doorbell == MAP_FAILED)
		return 1;
	fputs("started\n", stderr);
	for (uint32_t kernel = 1; kernel <= count && now() < end; kernel++) {
		uint64_t submitted = now(), returned, started;
		uint32_t seen = 0;

		doorbell[word / sizeof(*doorbell)] = kernel;
		returned = now();
		while (!takes_along && seen != kernel) {
			if (pread(device, &seen, sizeof(seen), word) != sizeof(seen))
				return 1;
			if (seen != kernel)
				pause_ns(100000);
		}
		started = now();
		pause_ns(KERNEL_NS);
		if (log)
			fprintf(log, "{\"kernel\":%u,\"submitted_ns\":%llu,\"returned_ns\":%llu,"
				"\"started_ns\":%llu,\"ended_ns\":%llu}\n", kernel,
				(unsigned long long)submitted, (unsigned long long)returned,
				(unsigned long long)started, (unsigned long long)now());
	}
	if (log)
		fclose(log);
	puts("{}");
	return 0;
}
