/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The threads of the library: one closes and opens the doorbells, one makes the stores
 * good that were left out. They start with the first doorbell.
 */

#include <pthread.h>

/* Holds of a program, and the longest time that may be asked for. */
#define HOLDS_MAX 16
#define MS_MAX 600000
/* TIMEOUT: a program that has mapped a doorbell and does not ring is held all the same. */
#define FIRST_STORE_MS 10000
/* TIMEOUT: a store that goes on is noted; one whose thread ended meanwhile is not waited for. */
#define RELEASE_MS 5000
#define RELEASE_AT_END_MS 20
/* TIMEOUT: a fault in a mapping that was closed reaches our handler before it is taken away. */
#define SETTLE_MS 500

/* What was asked for: times of the holds and before them. */
static struct list {
	uint64_t ms[HOLDS_MAX];
	unsigned int count;
} holds, pauses;

static atomic_int ending;

/* Under the lock: threads of ours that were started, and when the first doorbell was mapped. */
static int started;
static uint64_t first_mapping;
static pthread_t holder, ringer;
static int has_holder, has_ringer;

static int is_ending(void)
{
	return atomic_load(&ending);
}

/* Waits until then, or until the program ends. */
static void pause_until(uint64_t until)
{
	while (!is_ending() && now() < until) {
		uint32_t seen = changes;

		if (!is_ending())
			wait_for_change(seen, until);
	}
}

/* What the first pause counts from: the first store, or the first mapping some time ago. */
static uint64_t await_first_store(void)
{
	uint64_t limit = first_mapping + FIRST_STORE_MS * NS_PER_MS, before, from;
	struct line line = kind("counts");

	for (;;) {
		uint32_t seen = changes;

		if (is_ending() || __atomic_load_n(&first_store, __ATOMIC_RELAXED) || now() >= limit)
			break;
		wait_for_change(seen, limit);
	}
	before = enter();
	from = first_store ? first_store : limit;
	words(&line, "from", first_store ? "store" : "mapping");
	number(&line, "at", from);
	say(&line);
	leave(before);
	return from;
}

static void say_hold(unsigned int index)
{
	struct line line = kind("hold");

	number(&line, "number", index + 1);
	number(&line, "closed", hold.closed);
	number(&line, "opened", hold.opened);
	number(&line, "waited", hold.waited);
	number(&line, "first_wait", hold.first_wait);
	number(&line, "released", hold.released);
	say(&line);
}

/* Closes all doorbells for a time: no store is carried out between `closed` and `opened`. */
static uint64_t hold_once(unsigned int index)
{
	uint64_t before = enter(), limit;

	hold = (struct hold){ 0 };
	reasons = (reasons & ~AWAITING) | HOLDING;
	apply();
	hold.closed = now();
	leave(before);
	pause_until(hold.closed + holds.ms[index] * NS_PER_MS);
	before = enter();
	hold.opened = now();
	reasons &= ~HOLDING;
	apply();
	leave(before);
	changed();
	limit = hold.opened + (is_ending() ? RELEASE_AT_END_MS : RELEASE_MS) * NS_PER_MS;
	for (;;) {
		uint32_t seen = changes;

		if (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) || now() >= limit)
			break;
		wait_for_change(seen, limit);
	}
	before = enter();
	say_hold(index);
	leave(before);
	return hold.opened;
}

static void *run_holds(void *unused)
{
	uint64_t from = await_first_store(), before;

	for (unsigned int i = 0; i < holds.count; i++) {
		unsigned int pause = i < pauses.count ? i : pauses.count - 1;

		pause_until(from + pauses.ms[pause] * NS_PER_MS);
		if (is_ending())
			return unused;
		from = hold_once(i);
	}
	if (reasons & COUNTING)
		return unused;
	pause_until(now() + SETTLE_MS * NS_PER_MS);
	if (is_ending())
		return unused;
	before = enter();
	disarm();
	leave(before);
	return unused;
}

/* Makes the stores good that were left out, in their order; at the end all of them at once. */
static void *run_rings(void *unused)
{
	unsigned int next = 0;

	for (;;) {
		uint32_t seen = changes;
		uint64_t before = enter();
		int some = next < swallowed_count, held = reasons & HOLDING && !is_ending();
		uint64_t due = some ? swallowed[next].at + swallow.ms * NS_PER_MS : 0;

		if (some && !held && (is_ending() || now() >= due)) {
			make_good(&swallowed[next++]);
			leave(before);
			continue;
		}
		leave(before);
		if (!some && is_ending())
			return unused;
		wait_for_change(seen, held ? 0 : due);
	}
}

/* The threads of ours get none of the program's signals. */
static void start_threads(void)
{
	uint64_t before = enter(), blocked;
	int first = !started;

	started = 1;
	leave(before);
	if (!first)
		return;
	blocked = block(LATER);
	has_holder = holds.count && !pthread_create(&holder, NULL, run_holds, NULL);
	has_ringer = swallow.count && !pthread_create(&ringer, NULL, run_rings, NULL);
	block(blocked);
}
