/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stores that were seen: how many of which token, and those that are carried out
 * later. All of it under the lock.
 */

/* Different tokens, and places that are looked at for one. */
#define TOKENS_MAX 4096
#define PROBES_MAX 64
/* Different instructions whose bytes are reported. */
#define INSTRUCTIONS_MAX 32
/* Stores that are carried out later. */
#define SWALLOWED_MAX 1024

struct token {
	uint64_t stores, value;
	uint32_t mapping, offset;
	int understood;
};

static struct token tokens[TOKENS_MAX];
static uint64_t unlisted;

static uint8_t instructions[INSTRUCTIONS_MAX][INSTRUCTION_MAX];
static unsigned int instructions_seen;

/* A store that was not carried out, and when it was made good. */
struct swallowed {
	uint64_t number, at, rung;
	uint32_t mapping, offset, value;
	int done;
};

static struct swallowed swallowed[SWALLOWED_MAX];
static unsigned int swallowed_count;

/* What was asked for; `count` becomes 0 at an instruction that is not understood. */
static struct {
	uint64_t count, from, every, ms;
} swallow = { 0, 1, 1, 1000 };

/* Stores of the whole process. */
static uint64_t stores_seen;

static int same_token(const struct token *a, const struct token *b)
{
	return a->value == b->value && a->mapping == b->mapping && a->offset == b->offset &&
	       a->understood == b->understood;
}

static void count_token(struct token wanted)
{
	uint64_t key = (wanted.value ^ (uint64_t)wanted.offset << 32 ^ wanted.mapping) *
		       0x9e3779b97f4a7c15ull;

	for (unsigned int i = 0; i < PROBES_MAX; i++) {
		struct token *token = &tokens[((key >> 32) + i) % TOKENS_MAX];

		if (!token->stores)
			*token = wanted;
		if (same_token(token, &wanted)) {
			token->stores++;
			return;
		}
	}
	unlisted++;
}

/* Reports an instruction that is not understood, once. */
static void report_instruction(const struct store *store)
{
	struct line line = kind("instruction");

	for (unsigned int i = 0; i < instructions_seen; i++)
		if (!memcmp(instructions[i], store->bytes, INSTRUCTION_MAX))
			return;
	if (instructions_seen == INSTRUCTIONS_MAX)
		return;
	memcpy(instructions[instructions_seen++], store->bytes, INSTRUCTION_MAX);
	bytes(&line, "bytes", store->bytes, store->has);
	say(&line);
}

/* Whether the store that was just counted is one of those to be swallowed. */
static int is_to_be_swallowed(void)
{
	return swallow.count > swallowed_count && stores_seen >= swallow.from &&
	       (stores_seen - swallow.from) % swallow.every == 0;
}

static void refuse(const struct store *store)
{
	struct line line = kind("refused");

	swallow.count = 0;
	number(&line, "number", stores_seen);
	bytes(&line, "bytes", store->bytes, store->has);
	say(&line);
}

/* Counts a store; answers whether it is to be left out. */
static int ring(struct mapping *mapping, uint32_t offset, const struct store *store)
{
	struct token token = { 0, store->value, number_of(mapping), offset, store->length != 0 };

	stores_seen++;
	mapping->stores++;
	count_token(token);
	if (!store->length)
		report_instruction(store);
	if (!is_to_be_swallowed())
		return 0;
	if (!store->length || store->size != sizeof(uint32_t)) {
		refuse(store);
		return 0;
	}
	swallowed[swallowed_count++] = (struct swallowed){
		stores_seen, now(), 0, token.mapping, offset, store->value, 0,
	};
	changed();
	return 1;
}

/* Carries out a store that was left out; its mapping is open for it. */
static void make_good(struct swallowed *ring)
{
	struct mapping *mapping = &mappings[ring->mapping];
	uintptr_t at = mapping->start + ring->offset;
	struct line line = kind("swallowed");

	if (at >= mapping->from && at < mapping->to && mapping->rights & PROT_WRITE) {
		set_rights(mapping, mapping->rights);
		ring->rung = now();
		*(volatile uint32_t *)at = ring->value;
		apply();
	}
	ring->done = 1;
	number(&line, "number", ring->number);
	number(&line, "at", ring->at);
	number(&line, "mapping", ring->mapping);
	number(&line, "offset", ring->offset);
	number(&line, "token", ring->value);
	number(&line, "rung", ring->rung);
	say(&line);
}

static void say_tokens(void)
{
	for (unsigned int i = 0; i < TOKENS_MAX; i++) {
		struct line line = kind("token");

		if (!tokens[i].stores)
			continue;
		number(&line, "mapping", tokens[i].mapping);
		number(&line, "offset", tokens[i].offset);
		if (tokens[i].understood)
			number(&line, "value", tokens[i].value);
		else
			words(&line, "value", "unknown");
		number(&line, "stores", tokens[i].stores);
		write_line(&line);
	}
	if (unlisted) {
		struct line line = kind("unlisted");

		number(&line, "stores", unlisted);
		write_line(&line);
	}
}
