// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a program's main() several times, without a change to the program:
 * preloaded, it takes the place of the C library's call of main().
 *
 * The paper's authors changed the benchmarks that run their algorithm once, so
 * that they repeat their kernels and their input and output. Calling main()
 * again does both, in the same process and so with the same client.
 *
 * LOGA_ITERATE_UNDER  only programs with a file below this folder
 * LOGA_ITERATE_COUNT  how often
 * LOGA_ITERATE_LOG    gets a line for each time: PID PROGRAM NUMBER START END
 *                     STATUS, in ns of CLOCK_MONOTONIC
 *
 * exit() ends an iteration. A time that ends with a status other than 0 is the
 * last one. What main() leaves in static memory stays there.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int main_t(int, char **, char **);
typedef int start_t(main_t *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static main_t *program_main;
static char program[PATH_MAX];
static unsigned long count;
static int log_file = -1;

static jmp_buf ended;
static pthread_t iterating;
static volatile int in_iteration;
static volatile int exit_status;

static unsigned long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* A fresh copy: programs cut up and reorder their arguments. */
static char **copy_arguments(int argc, char **argv)
{
	char **copy = calloc(argc + 1, sizeof(*copy));
	int i;

	for (i = 0; copy && i < argc; i++)
		copy[i] = strdup(argv[i]);
	return copy;
}

static int iterate(int argc, char **argv, char **environment)
{
	static volatile unsigned long number;
	char line[PATH_MAX + 128];
	unsigned long long start;
	int length;

	iterating = pthread_self();
	for (number = 0; number < count; number++) {
		char **arguments = copy_arguments(argc, argv);

		if (!arguments)
			return 125;
		optind = 0;
		start = now();
		in_iteration = 1;
		if (setjmp(ended) == 0)
			exit_status = program_main(argc, arguments, environment);
		in_iteration = 0;
		fflush(NULL);
		length = snprintf(line, sizeof(line), "%d %s %lu %llu %llu %d\n", getpid(),
				  program, number, start, now(), exit_status);
		if (write(log_file, line, length) != length)
			return 126;
		if (exit_status != 0)
			break;
	}
	return exit_status;
}

void exit(int status)
{
	void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, "exit");

	if (in_iteration && pthread_equal(pthread_self(), iterating)) {
		exit_status = status;
		longjmp(ended, 1);
	}
	real(status);
	_exit(status);
}

/* Whether this is one of the programs to repeat. */
static int wanted(void)
{
	const char *under = getenv("LOGA_ITERATE_UNDER");
	const char *times = getenv("LOGA_ITERATE_COUNT");
	const char *path = getenv("LOGA_ITERATE_LOG");
	ssize_t length;

	if (!under || !times || !path)
		return 0;
	length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (length < 0 || strncmp(program, under, strlen(under)) != 0)
		return 0;
	count = strtoul(times, NULL, 10);
	log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return count > 0 && log_file >= 0;
}

int __libc_start_main(main_t *main, int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	start_t *real = (start_t *)dlsym(RTLD_NEXT, "__libc_start_main");

	program_main = main;
	if (wanted())
		main = iterate;
	return real(main, argc, argv, init, fini, rtld_fini, stack_end);
}
