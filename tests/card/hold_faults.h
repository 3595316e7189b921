/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handlers of SIGSEGV and SIGTRAP, and the program's own, which are kept aside
 * while ours are installed.
 *
 * A store that is counted runs alone: its mapping is opened, the processor's trap flag
 * ends it after one instruction, and the handler of SIGTRAP closes the mapping again.
 * The lock is held in between: two threads do not do so at once.
 */

#include <dlfcn.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100
/* The error code of a page fault has this bit for a store. */
#define FAULT_STORES 2
/* Faults in a row of a thread in a mapping that is open: the first ones met its opening. */
#define AGAIN_MAX 1000

/* The function of this name behind ours: of the C library, or of another library like this one. */
#define BEHIND(name)                                                                            \
	({                                                                                      \
		static __typeof__(name) *behind;                                                \
		if (!behind)                                                                    \
			behind = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                   \
		behind;                                                                         \
	})

#define HERE static __thread __attribute__((tls_model("initial-exec")))

/* Of the calling thread, while one store of it runs alone. */
HERE int stepping;
HERE uint64_t step_blocked;
HERE greg_t step_flags;
HERE unsigned int again;

/* Whether anything is looked at: not before the library has begun, not in a child. */
static int looking;

/* When the first store to a doorbell was seen, or 0. */
static uint64_t first_store;

/* Under the lock: whether our handlers are installed, and whose are kept meanwhile. */
static int armed;
static struct sigaction kept[2];
static const int handled[2] = { SIGSEGV, SIGTRAP };

static int real_sigaction(int signal, const struct sigaction *action, struct sigaction *before)
{
	return BEHIND(sigaction)(signal, action, before);
}

static uint64_t blocked_in(const ucontext_t *user)
{
	uint64_t blocked;

	memcpy(&blocked, &user->uc_sigmask, sizeof(blocked));
	return blocked;
}

/* The thread goes on with exactly one instruction, and with the lock. */
static void step(ucontext_t *user)
{
	const uint64_t later = LATER;

	stepping = 1;
	step_blocked = blocked_in(user);
	step_flags = user->uc_mcontext.gregs[REG_EFL] & TRAP_FLAG;
	user->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
	memcpy(&user->uc_sigmask, &later, sizeof(later));
}

static void end_step(ucontext_t *user)
{
	memcpy(&user->uc_sigmask, &step_blocked, sizeof(step_blocked));
	user->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	user->uc_mcontext.gregs[REG_EFL] |= step_flags;
	stepping = 0;
	apply();
	drop();
}

/* A fault that is none of ours: what the program wanted, or the signal's default. */
static void foreign(int which, siginfo_t *info, void *context)
{
	static const struct sigaction by_default = { .sa_handler = SIG_DFL };
	int signal = handled[which];
	struct sigaction action;
	uint64_t blocked;

	grab();
	action = kept[which];
	if (action.sa_flags & SA_RESETHAND)
		kept[which].sa_handler = SIG_DFL;
	drop();
	if (action.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
		real_sigaction(signal, &by_default, NULL);
		/* A fault comes again by itself; what was sent, or is over, does not. */
		if (signal == SIGTRAP || info->si_code <= 0)
			syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
		return;
	}
	memcpy(&blocked, &action.sa_mask, sizeof(blocked));
	blocked |= blocked_in(context);
	if (!(action.sa_flags & SA_NODEFER))
		blocked |= BIT(signal);
	block(blocked);
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(signal, info, context);
	else
		action.sa_handler(signal);
}

static int permits(const struct mapping *mapping, int stores)
{
	return stores ? mapping->rights & PROT_WRITE : mapping->rights != PROT_NONE;
}

static void note_first_store(uint64_t time)
{
	if (!first_store) {
		first_store = time;
		reasons &= ~AWAITING;
		apply();
		changed();
	}
}

/* A store or load that reaches a closed mapping, under the lock; it keeps it if it steps. */
static void closed(struct mapping *mapping, uintptr_t address, int stores, ucontext_t *user)
{
	greg_t *registers = user->uc_mcontext.gregs;
	int left_out = 0;

	if (reasons & HOLDING) {
		wait_for_opening(address, blocked_in(user));
	} else {
		if (stores)
			note_first_store(now());
		if (stores && reasons & COUNTING) {
			struct store store = decode(registers);

			left_out = ring(mapping, address - mapping->start, &store);
			if (left_out)
				registers[REG_RIP] += store.length;
		}
		if (!stores)
			mapping->reads++;
		if (!left_out && reasons) {
			set_rights(mapping, mapping->rights);
			step(user);
			return;
		}
	}
	drop();
}

/* Answers whether the fault is one of ours, and then has done what it asks for. */
static int touched(uintptr_t address, int stores, ucontext_t *user)
{
	struct mapping *mapping;

	if (!stepping)
		grab();
	mapping = find(address);
	if (!mapping || !permits(mapping, stores)) {
		if (stepping)
			end_step(user);
		else
			drop();
		return 0;
	}
	if (stepping) {
		/* One instruction reaches two mappings. */
		set_rights(mapping, mapping->rights);
		if (++again <= AGAIN_MAX)
			return 1;
		end_step(user);
		return 0;
	}
	if (mapping->has == mapping->rights) {
		drop();
		return ++again <= AGAIN_MAX;
	}
	again = 0;
	closed(mapping, address, stores, user);
	return 1;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	ucontext_t *user = context;
	int stores = user->uc_mcontext.gregs[REG_ERR] & FAULT_STORES, error = errno;

	(void)signal;
	if (info->si_code <= 0 || !touched((uintptr_t)info->si_addr, stores, user))
		foreign(0, info, context);
	errno = error;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	int error = errno;

	(void)signal;
	if (stepping)
		end_step(context);
	else
		foreign(1, info, context);
	errno = error;
}

static void arm(void)
{
	/* Not on a stack for signals: programs have small ones, and a store that waits is interrupted. */
	struct sigaction ours = { .sa_flags = SA_SIGINFO };

	if (armed)
		return;
	sigfillset(&ours.sa_mask);
	ours.sa_sigaction = on_trap;
	real_sigaction(SIGTRAP, &ours, &kept[1]);
	ours.sa_sigaction = on_fault;
	real_sigaction(SIGSEGV, &ours, &kept[0]);
	armed = 1;
}

static void disarm(void)
{
	if (!armed)
		return;
	real_sigaction(SIGSEGV, &kept[0], NULL);
	real_sigaction(SIGTRAP, &kept[1], NULL);
	armed = 0;
}

static int which(int signal)
{
	return signal == SIGSEGV ? 0 : signal == SIGTRAP ? 1 : -1;
}

/* A program's handler is kept aside while ours is installed. */
int sigaction(int signal, const struct sigaction *action, struct sigaction *before)
{
	int at = which(signal), result = 0;
	struct sigaction wanted = { 0 }, was = { 0 };
	uint64_t blocked;

	if (at < 0)
		return real_sigaction(signal, action, before);
	if (action)
		wanted = *action;
	blocked = enter();
	if (armed) {
		was = kept[at];
		if (action)
			kept[at] = wanted;
	} else {
		result = real_sigaction(signal, action ? &wanted : NULL, &was);
	}
	leave(blocked);
	if (before)
		*before = was;
	return result;
}

sighandler_t signal(int signal, sighandler_t handler)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART }, before;

	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, signal);
	return sigaction(signal, &action, &before) ? SIG_ERR : before.sa_handler;
}

/* A store must not meet a thread that blocks the signals that let it wait: these stay open. */
static const sigset_t *without_ours(int how, const sigset_t *set, sigset_t *copy)
{
	if (!looking || !set || how == SIG_UNBLOCK)
		return set;
	*copy = *set;
	sigdelset(copy, SIGSEGV);
	sigdelset(copy, SIGTRAP);
	return copy;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
	sigset_t copy;

	return BEHIND(pthread_sigmask)(how, without_ours(how, set, &copy), before);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
	sigset_t copy;

	return BEHIND(sigprocmask)(how, without_ours(how, set, &copy), before);
}
