// SPDX-License-Identifier: GPL-2.0
/*
 * Makes calls of NVIDIA's interface on an ordinary file, for the tests of record.c:
 * calls NODE channel | names | many COUNT | fork | closed.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "name-of-a-person"

static int node;

/* RM_ALLOC of 48 bytes and RM_CONTROL of 32; the file refuses both. */
static void allocate(uint32_t class, const void *parameters)
{
	uint32_t call[12] = { 1, 2, 3, class };

	memcpy(call + 4, &parameters, sizeof(parameters));
	if (ioctl(node, _IOWR('F', 0x2b, call), call) != -1 || errno != ENOTTY)
		exit(1);
}

static void control(uint32_t command, const void *parameters, uint32_t length)
{
	uint32_t call[8] = { 1, 3, command };

	memcpy(call + 4, &parameters, sizeof(parameters));
	call[6] = length;
	if (ioctl(node, _IOWR('F', 0x2a, call), call) != -1 || errno != ENOTTY)
		exit(1);
}

/* A channel whose userdOffset is at 64, its group's timeslice, and 536 bytes of handles. */
static void channel(void)
{
	uint64_t parameters[46], timeslice = 2048;
	uint32_t disable[134];

	for (int i = 0; i < 46; i++)
		parameters[i] = 0x1000 + i;
	for (int i = 0; i < 134; i++)
		disable[i] = 0x2000 + i;
	allocate(0xc86f, parameters);
	control(0xa06c0103, &timeslice, sizeof(timeslice));
	control(0x2080110b, disable, sizeof(disable));
}

/* Names in structures, and behind the end of those that are kept. */
static void names(void)
{
	static const struct {
		uint32_t class;
		size_t length;
	} kept[] = { { 0xa06c, 20 }, { 0x40, 64 },   { 0x3e, 64 },   { 0xc96f, 368 },
		     { 0xc661, 2 },  { 0xcbc0, 16 }, { 0xc8b5, 8 } };
	static const uint32_t others[] = { 0, 0x41, 0x80, 0x2080, 0x5a, 0xb661 };
	char text[1024] = { 0 };

	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
		memset(text, 0x5a, sizeof(text));
		strcpy(text + kept[i].length, NAME);
		allocate(kept[i].class, text);
	}
	for (size_t at = 0; at < 64; at += strlen(NAME))
		strcpy(text + at, NAME);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		allocate(others[i], text);
	control(0xa06f0108, text, sizeof(text));
	control(0xa06c0110, text, sizeof(text));
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";

	node = open(argv[1], O_RDWR);
	if (node < 0)
		return 1;
	if (!strcmp(what, "names"))
		names();
	if (!strcmp(what, "channel"))
		channel();
	for (int i = argc > 3 ? atoi(argv[3]) : 0; i > 0; i--)
		channel();
	if (!strcmp(what, "closed")) {
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		node = open(argv[1], O_RDWR);
		channel();
	}
	if (!strcmp(what, "fork")) {
		int status;
		pid_t child;

		channel();
		child = fork();
		if (!child) {
			channel();
			exit(0);
		}
		printf("%d\n", child);
		return waitpid(child, &status, 0) != child || status;
	}
	puts("done");
	return 0;
}
