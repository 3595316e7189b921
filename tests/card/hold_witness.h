/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the calls of a program tell of a doorbell mapping before it is made: which
 * object it maps (RM_ALLOC), on which file and at which address (MAP_MEMORY). All of it
 * under the lock.
 */

#define NR_ALLOC 0x2b
#define NR_MAP_MEMORY 0x4e
#define MAP_MEMORY_BYTES 56
/* RM_ALLOC has 32, 40 or 48 bytes; its status is the last word but one. */
#define ALLOC_BYTES 48

/* Objects, and files that were named for a mapping, of the whole process. */
#define OBJECTS_MAX 64
#define FILES_MAX 64

/* Where BAR0 has the doorbells, in its 16 MiB: Turing and later, Volta. */
#define BAR0_MASK 0xffffffull
#define BAR0_DOORBELLS 0xbb0000ull
#define BAR0_DOORBELLS_VOLTA 0x810000ull

struct object {
	uint32_t client, handle;
	int bar1; /* whether BAR1 was asked for */
};

/* A file whose next mapping is that of a doorbell. */
struct witness {
	int fd;
	enum bar bar;
};

static struct object objects[OBJECTS_MAX];
static unsigned int object_count;
static struct witness witnesses[FILES_MAX];
static unsigned int witness_count;

static struct object *object(uint32_t client, uint32_t handle)
{
	for (unsigned int i = 0; i < object_count; i++)
		if (objects[i].client == client && objects[i].handle == handle)
			return &objects[i];
	return NULL;
}

static int is_doorbell_class(uint32_t class)
{
	return class == 0xc361 || class == 0xc461 || class == 0xc561 || class == 0xc661 ||
	       class == 0xc761;
}

/* An allocation that succeeded: a handle that is used again is another object. */
static void allocated(const uint8_t *call)
{
	struct object *old = object(word(call, 0), word(call, 8));
	const void *parameters;
	uint8_t first = 0;

	if (old)
		*old = objects[--object_count];
	if (!is_doorbell_class(word(call, 12)) || object_count == OBJECTS_MAX)
		return;
	memcpy(&parameters, call + 16, sizeof(parameters));
	if (parameters)
		peek(parameters, &first, sizeof(first));
	objects[object_count++] = (struct object){ word(call, 0), word(call, 8), first != 0 };
}

/* What was asked for and the address that was answered agree, or it is not known. */
static enum bar where(const struct object *object, uint64_t address)
{
	uint64_t in_bar0 = address & BAR0_MASK;
	int looks_like_bar0 = in_bar0 == BAR0_DOORBELLS || in_bar0 == BAR0_DOORBELLS_VOLTA;

	if (object->bar1 == looks_like_bar0)
		return UNKNOWN;
	return looks_like_bar0 ? BAR0 : BAR1;
}

/* Takes what is known of the next mapping of a file; answers whether there is anything. */
static int take_witness(int fd, enum bar *bar)
{
	for (unsigned int i = 0; i < witness_count; i++) {
		if (witnesses[i].fd != fd)
			continue;
		*bar = witnesses[i].bar;
		witnesses[i] = witnesses[--witness_count];
		return 1;
	}
	return 0;
}

/* A mapping that was prepared. */
static void prepared(const uint8_t *call)
{
	struct object *found = object(word(call, 0), word(call, 8));
	int fd = (int)word(call, 48);
	uint64_t address;
	enum bar old;

	take_witness(fd, &old);
	if (!found || witness_count == FILES_MAX)
		return;
	memcpy(&address, call + 32, sizeof(address));
	witnesses[witness_count++] = (struct witness){ fd, where(found, address) };
}

/* A call that the kernel took, with its structure as it was answered. */
static void witnessed(unsigned int nr, const uint8_t *call, size_t size)
{
	if (nr == NR_ALLOC && !word(call, size - 8))
		allocated(call);
	if (nr == NR_MAP_MEMORY && !word(call, 40))
		prepared(call);
}

static int is_witnessed(unsigned int nr, size_t size)
{
	return (nr == NR_ALLOC && (size == 32 || size == 40 || size == ALLOC_BYTES)) ||
	       (nr == NR_MAP_MEMORY && size == MAP_MEMORY_BYTES);
}
