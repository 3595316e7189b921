// SPDX-License-Identifier: GPL-2.0
/*
 * Stores to doorbells, for the tests of hold.c: stores NODE WHAT. Each WHAT is a
 * function below; its lines on the standard output are what the test compares with
 * the report.
 */

#include "stores.h"

#define STORES_MAX 100000

static volatile uint64_t arrived[STORES_MAX];
static volatile int over;
static char *stored_to;

/* Notes when each value was first seen at RING by the other view. */
static void *watch(void *unused)
{
	while (!over) {
		uint32_t value = seen(RING);

		if (value < STORES_MAX && !arrived[value])
			arrived[value] = now();
	}
	return unused;
}

/* Stores 1, 2, ... until the first hold is over, and says when each store was. */
static int wait_in_hold(void)
{
	static uint64_t before[STORES_MAX], after[STORES_MAX];
	char *doorbell = map(PROT_WRITE);
	pthread_t watcher;
	int last = 0;

	pthread_create(&watcher, NULL, watch, NULL);
	while (!said("hold number=1") && last + 1 < STORES_MAX) {
		last++;
		before[last] = now();
		store(doorbell, RING, last);
		after[last] = now();
		if (seen(RING) != (uint32_t)last)
			return 1;
		while (!arrived[last])
			look_again();
		look_again();
	}
	over = 1;
	pthread_join(watcher, NULL);
	for (int i = 1; i <= last; i++)
		printf("store before=%lu after=%lu seen=%lu\n", before[i], after[i], arrived[i]);
	return !has_rights(doorbell, "-w-s");
}

/* Stores of each form, with all signals blocked as some libraries do, and one load. */
static int forms(void)
{
	char *doorbell = map(PROT_WRITE);
	uint32_t plain = 0x3344, loaded;
	sigset_t all;

	for (int i = 0; i < 7; i++)
		store(doorbell, RING, 0xa0000001);
	store(doorbell, RING, 0xa0000002);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	__asm__ volatile("movq %0, %%r12\n\t"
			 "movabsq $0x1122334455667788, %%r9\n\t"
			 "movl %1, 0x100(%0)\n\t"
			 "movl $0x11111111, 0x104(%0)\n\t"
			 "movl $0x22222222, 0x108(%0,%2,4)\n\t"
			 "movl %1, 0x8(%%r12)\n\t"
			 "movl %%r9d, (%%r12)\n\t"
			 "movw %w1, 0x200(%0)\n\t"
			 "movw $0x7788, 0x204(%0)\n\t"
			 "movq %%r9, 0x208(%0)\n\t"
			 "movq $-2, 0x210(%0)\n\t"
			 "movnti %1, 0x300(%0)\n\t"
			 "movnti %1, 0x304(%0)\n\t"
			 "movl 0x90(%0), %1"
			 : "+r"(doorbell), "+r"(plain)
			 : "r"(2l)
			 : "memory", "r9", "r12");
	loaded = plain;
	return loaded != 0xa0000002 || seen(0) != 0x55667788 || seen(8) != 0x3344 ||
	       seen(0x110) != 0x22222222 || seen(0x200) != 0x3344 || seen(0x204) != 0x7788 ||
	       seen(0x20c) != 0x11223344 || seen(0x214) != 0xffffffff || seen(0x304) != 0x3344;
}

/* Six stores to six places; says when each was seen. An exchange is not understood. */
static int six(void)
{
	char *doorbell = map(PROT_WRITE);
	uint64_t when[6] = { 0 };
	int left = 6;

	for (int i = 0; i < 6; i++)
		store(doorbell, 4 * i, 100 + i);
	while (left) {
		for (int i = 0; i < 6; i++)
			if (!when[i] && seen(4 * i) == 100u + i) {
				when[i] = now();
				left--;
			}
		look_again();
	}
	for (int i = 0; i < 6; i++)
		printf("seen number=%d at=%lu\n", i + 1, when[i]);
	return 0;
}

static int six_and_end(void)
{
	char *doorbell = map(PROT_WRITE);

	for (int i = 0; i < 6; i++)
		store(doorbell, 4 * i, 100 + i);
	return 0;
}

static int exchange(void)
{
	char *doorbell = map(PROT_WRITE);
	uint32_t value = 55;

	__asm__ volatile("xchgl %0, 0x90(%1)" : "+r"(value) : "r"(doorbell) : "memory");
	store(doorbell, 0, 56);
	return seen(RING) != 55 || seen(0) != 56;
}

/* Values of four threads, each to a place of its own. */
#define VALUES 2000

static void *many(void *place)
{
	for (uint32_t value = 1; value <= VALUES; value++) {
		store(stored_to, (uintptr_t)place, value);
		if (seen((uintptr_t)place) != value)
			exit(1);
	}
	return NULL;
}

static int threads(void)
{
	pthread_t all[4];

	stored_to = map(PROT_WRITE);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&all[i], NULL, many, (void *)(4 * i));
	for (int i = 0; i < 4; i++)
		pthread_join(all[i], NULL);
	while (!said("hold number=3"))
		look_again();
	return 0;
}

static sigjmp_buf back;
static volatile uintptr_t fault;
static volatile int by;

static void first_handler(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	fault = (uintptr_t)info->si_addr;
	by = 1;
	siglongjmp(back, 1);
}

static void second_handler(int signal)
{
	(void)signal;
	by = 2;
	siglongjmp(back, 1);
}

/* What the kernel calls for SIGSEGV: the library cannot keep that from us. */
static void *installed(void)
{
	struct {
		void *handler;
		unsigned long flags, restorer, mask;
	} action = { 0 };

	syscall(SYS_rt_sigaction, SIGSEGV, NULL, &action, 8);
	return action.handler;
}

/* A page that is no doorbell, and a fault in it. */
static char *no_doorbell(void)
{
	return mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void fault_at(char *page)
{
	by = 0;
	if (!sigsetjmp(back, 1))
		store(page, 8, 1);
}

static void install_first(void)
{
	struct sigaction first = { .sa_flags = SA_SIGINFO };

	first.sa_sigaction = first_handler;
	sigaction(SIGSEGV, &first, NULL);
}

/* The program's handlers are called for its own faults, while others are installed. */
static int handlers(void)
{
	char *page = no_doorbell(), *doorbell;
	struct sigaction old;

	install_first();
	doorbell = map(PROT_WRITE);
	store(doorbell, RING, 1);
	fault_at(page);
	if (by != 1 || fault != (uintptr_t)page + 8)
		return 2;
	store(doorbell, RING, 2);
	if (signal(SIGSEGV, second_handler) != (void *)first_handler)
		return 3;
	if (sigaction(SIGSEGV, NULL, &old) || old.sa_handler != second_handler)
		return 4;
	fault_at(page);
	if (by != 2)
		return 5;
	by = 0;
	if (!sigsetjmp(back, 1))
		raise(SIGSEGV);
	if (by != 2 || seen(RING) != 2)
		return 6;
	return installed() == (void *)first_handler || installed() == (void *)second_handler;
}

/* After the last hold the program's handler is the installed one again. */
static int restored(void)
{
	char *page = no_doorbell(), *doorbell;

	install_first();
	doorbell = map(PROT_WRITE);
	store(doorbell, RING, 1);
	while (!said("hold number=1") || installed() != (void *)first_handler)
		look_again();
	fault_at(page);
	store(doorbell, RING, 2);
	return by != 1 || seen(RING) != 2;
}

static int crash(void)
{
	char *volatile nowhere = NULL;

	store(map(PROT_WRITE), RING, 1);
	store(nowhere, RING, 1);
	return 0;
}

static int trap(void)
{
	store(map(PROT_WRITE), RING, 1);
	__asm__ volatile("int3");
	return 0;
}

static volatile pid_t faulting;

static void *store_and_fault(void *doorbell)
{
	faulting = gettid();
	if (!sigsetjmp(back, 1))
		store(doorbell, RING, 2);
	return NULL;
}

/* A thread's store waits; its mapping goes; the thread has the fault that is its own. */
static int unmap(void)
{
	char *doorbell = map(PROT_WRITE), *later;
	pthread_t thread;

	install_first();
	store(doorbell, RING, 1);
	await_rights(doorbell, "---s");
	later = map(PROT_WRITE);
	if (!has_rights(later, "---s"))
		return 1;
	pthread_create(&thread, NULL, store_and_fault, doorbell);
	while (!sleeps_on_a_futex(faulting))
		look_again();
	if (by)
		return 2;
	munmap(doorbell, BYTES);
	pthread_join(thread, NULL);
	if (by != 1 || fault != (uintptr_t)doorbell + RING)
		return 3;
	printf("faulted at=%lu\n", now());
	return seen(RING) != 1;
}

/* A child stores at once while its parent's doorbell stays closed. */
static int fork_in_hold(void)
{
	char *doorbell = map(PROT_WRITE);
	int status;
	pid_t child;

	store(doorbell, RING, 1);
	await_rights(doorbell, "---s");
	child = fork();
	if (!child) {
		store(doorbell, RING, 2);
		_exit(seen(RING) != 2 || !has_rights(doorbell, "-w-s"));
	}
	if (waitpid(child, &status, 0) != child || status)
		return 1;
	printf("ended at=%lu\n", now());
	return !has_rights(doorbell, "---s");
}

/* The program's own rights and moves. */
static int rights(void)
{
	char *doorbell = map(PROT_WRITE), *moved, *place;

	if (!has_rights(doorbell, "---s") || mprotect(doorbell, BYTES, PROT_READ | PROT_WRITE))
		return 1;
	if (!has_rights(doorbell, "---s"))
		return 2;
	store(doorbell, RING, 1);
	place = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	moved = mremap(doorbell, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	if (moved != place || !has_rights(moved, "---s"))
		return 3;
	store(moved, RING, 2);
	munmap(moved + BYTES / 2, BYTES / 2);
	store(moved, RING, 3);
	/* Different rights in one mapping: the library lets go of it. */
	if (seen(RING) != 3 || mprotect(moved, BYTES / 4, PROT_READ | PROT_WRITE))
		return 4;
	store(moved, RING, 4);
	store(moved, BYTES / 4 + RING, 5);
	return seen(RING) != 4 || seen(BYTES / 4 + RING) != 5;
}

static volatile int is_storing;

/* The program's own code, from the linker. */
extern const char __executable_start, etext;

/* Ends the program if what it interrupted is the store, and not in the program's code. */
static void at_alarm(int signal, siginfo_t *info, void *context)
{
	uintptr_t at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)signal;
	(void)info;
	if (is_storing && (at < (uintptr_t)&__executable_start || at >= (uintptr_t)&etext))
		exit(3);
}

/* A signal of the program comes while its store waits. */
static int alarm_in_hold(void)
{
	struct itimerval often = { { 0, 20000 }, { 0, 20000 } };
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	action.sa_sigaction = at_alarm;
	stored_to = map(PROT_WRITE);
	store(stored_to, RING, 1);
	sigaction(SIGALRM, &action, NULL);
	await_rights(stored_to, "---s");
	setitimer(ITIMER_REAL, &often, NULL);
	is_storing = 1;
	store(stored_to, RING, 2);
	return 0;
}

/* RM_ALLOC of a class and MAP_MEMORY of it on a file, which is then mapped and rung once. */
static void bar(uint32_t handle, uint32_t class, int in_bar1, uint64_t address, int rights)
{
	uint32_t allocate[12] = { 1, 2, handle, class }, prepare[14] = { 1, 2, handle };
	uint8_t parameters[2] = { 1, 0 };
	const void *pointer = in_bar1 ? parameters : NULL;
	int control = open(path, O_RDWR), fd = open(path, O_RDWR);
	char *at;

	memcpy(allocate + 4, &pointer, sizeof(pointer));
	memcpy(prepare + 8, &address, sizeof(address));
	prepare[12] = fd;
	if (ioctl(control, _IOWR('F', 0x2b, allocate), allocate) ||
	    ioctl(control, _IOWR('F', 0x4e, prepare), prepare))
		exit(1);
	at = mmap(NULL, BYTES, rights, MAP_SHARED, fd, 0);
	store(at, RING, handle);
	close(fd);
	close(control);
}

static int bars(void)
{
	bar(10, 0xc661, 0, 0x102200bb0000, PROT_WRITE);
	bar(11, 0xc661, 1, 0x1023000a0000, PROT_WRITE);
	bar(12, 0xc361, 0, 0x102200810000, PROT_WRITE);
	bar(13, 0xc661, 1, 0x102200bb0000, PROT_WRITE);
	bar(14, 0xc461, 0, 0x102200bb0000, PROT_READ | PROT_WRITE);
	bar(15, 0x3e, 0, 0x102200bb0000, PROT_READ | PROT_WRITE);
	bar(16, 0x3e, 0, 0x102200bb0000, PROT_WRITE);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} all[] = {
		{ "wait", wait_in_hold }, { "forms", forms },	      { "six", six },
		{ "six-and-end", six_and_end }, { "exchange", exchange }, { "handlers", handlers },
		{ "crash", crash },	  { "trap", trap },	      { "unmap", unmap },
		{ "fork", fork_in_hold }, { "rights", rights },	      { "alarm", alarm_in_hold },
		{ "bars", bars },	  { "threads", threads },
		{ "restored", restored },
	};
	int fd;

	path = argv[1];
	fd = open(path, O_RDONLY);
	view = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (argc < 3 || view == MAP_FAILED)
		return 1;
	close(fd);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(all[i].name, argv[2]))
			return all[i].run();
	return 1;
}
