/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The doorbell mappings of the process and the gate before them. A mapping is closed
 * (no rights at all) while there is a reason, and has the rights that the program gave
 * it otherwise. All of it under the lock.
 */

#include <sys/mman.h>

/* Mappings that are known in the life of a process. CUDA has two. */
#define MAPPINGS_MAX 256

/* Why mappings are closed. */
enum {
	COUNTING = 1, /* each store is seen */
	AWAITING = 2, /* the first store is seen */
	HOLDING = 4, /* no store is carried out */
};

/* Where a mapping leads. */
enum bar { BAR0, BAR1, UNKNOWN };

struct mapping {
	uintptr_t start; /* where it began */
	uintptr_t from, to; /* what is left of it; equal: nothing */
	int rights, has; /* that the program gave it; that it has now */
	enum bar bar;
	size_t length;
	uint64_t stores, reads;
};

static struct mapping mappings[MAPPINGS_MAX];
static unsigned int mapped;
static unsigned int reasons;

/* A hold, and the stores that wait in it. */
struct hold {
	uint64_t closed, opened, waited, first_wait, released;
};

static struct hold hold;
static unsigned int waiting;

static const char *bar_name(enum bar bar)
{
	return bar == BAR0 ? "0" : bar == BAR1 ? "1" : "unknown";
}

static unsigned int number_of(const struct mapping *mapping)
{
	return mapping - mappings;
}

static struct mapping *find(uintptr_t address)
{
	for (unsigned int i = 0; i < mapped; i++)
		if (address >= mappings[i].from && address < mappings[i].to)
			return &mappings[i];
	return NULL;
}

static void set_rights(struct mapping *mapping, int rights)
{
	struct line line;

	if (mapping->from == mapping->to || mapping->has == rights)
		return;
	if (!syscall(SYS_mprotect, mapping->from, mapping->to - mapping->from, rights)) {
		mapping->has = rights;
		return;
	}
	line = kind("failed");
	number(&line, "mapping", number_of(mapping));
	number(&line, "rights", rights);
	number(&line, "errno", errno);
	say(&line);
}

/* Gives every mapping the rights that it should have now. */
static void apply(void)
{
	for (unsigned int i = 0; i < mapped; i++)
		set_rights(&mappings[i], reasons ? PROT_NONE : mappings[i].rights);
}

/* A new doorbell mapping, with these rights now and by the program's wish. */
static void add_mapping(uintptr_t from, size_t length, int has, int rights, enum bar bar)
{
	struct line line = kind(mapped < MAPPINGS_MAX ? "mapped" : "untracked");
	struct mapping mapping = { from, from, from + length, rights, has, bar, length, 0, 0 };

	number(&line, "number", mapped);
	words(&line, "bar", bar_name(bar));
	number(&line, "length", length);
	number(&line, "rights", rights);
	number(&line, "at", now());
	say(&line);
	if (mapped == MAPPINGS_MAX) {
		if (has != rights)
			syscall(SYS_mprotect, from, length, rights);
		return;
	}
	mappings[mapped++] = mapping;
	apply();
}

/* This range is no longer what it was: mappings in it end, or become shorter. */
static void forget(uintptr_t from, uintptr_t to)
{
	for (unsigned int i = 0; i < mapped; i++) {
		struct mapping *mapping = &mappings[i];
		struct line line = kind("unmapped");

		if (from >= mapping->to || to <= mapping->from)
			continue;
		if (from <= mapping->from) {
			mapping->from = to < mapping->to ? to : mapping->to;
		} else {
			/* Behind a hole it is the program's alone. */
			if (to < mapping->to && mapping->has != mapping->rights)
				syscall(SYS_mprotect, to, mapping->to - to, mapping->rights);
			mapping->to = from;
		}
		number(&line, "number", i);
		number(&line, "left", mapping->to - mapping->from);
		number(&line, "at", now());
		say(&line);
		/* A store that waits finds out. */
		changed();
	}
}

/* The program wants these rights of a range, and the kernel agrees. */
static void wanted_rights(uintptr_t from, uintptr_t to, int rights)
{
	for (unsigned int i = 0; i < mapped; i++) {
		struct mapping *mapping = &mappings[i];

		if (from >= mapping->to || to <= mapping->from)
			continue;
		if (from <= mapping->from && to >= mapping->to) {
			mapping->has = mapping->rights = rights;
			continue;
		}
		/* Different rights in one mapping: it is the program's alone. */
		if (mapping->from < from)
			syscall(SYS_mprotect, mapping->from, from - mapping->from, mapping->rights);
		if (to < mapping->to)
			syscall(SYS_mprotect, to, mapping->to - to, mapping->rights);
		forget(mapping->from, mapping->to);
	}
	apply();
}

/*
 * Lets the calling thread wait while its mapping is held. Drops the lock meanwhile, and
 * lets through the signals that the program had not blocked.
 */
static void wait_for_opening(uintptr_t address, uint64_t blocked)
{
	hold.waited++;
	if (!hold.first_wait)
		hold.first_wait = now();
	waiting++;
	while (reasons & HOLDING && find(address)) {
		uint32_t seen = changes;
		uint64_t before;

		drop();
		before = block(blocked);
		wait_for_change(seen, 0);
		block(before);
		grab();
	}
	waiting--;
	hold.released = now();
	changed();
}
