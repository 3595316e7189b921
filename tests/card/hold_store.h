/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an instruction of x86-64 stores, from its bytes and the registers before it:
 * MOV of a register (89 /r) and of a constant (C7 /0) to memory, of 2, 4 or 8 bytes.
 */

#include <ucontext.h>

#define INSTRUCTION_MAX 15
/* Prefixes before REX that are read over: size of the operand and of the address, segments. */
#define PREFIXES_MAX 4

/* A store; `length` of its instruction is 0 where the instruction is not understood. */
struct store {
	uint8_t bytes[INSTRUCTION_MAX + 1];
	size_t has;
	unsigned int length, size;
	uint64_t value;
};

/* Registers by their numbers in instructions. */
static const uint8_t numbered[16] = {
	REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
	REG_R8,	 REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
};

static int is_prefix(uint8_t byte)
{
	return byte == 0x66 || byte == 0x67 || byte == 0x2e || byte == 0x36 || byte == 0x3e ||
	       byte == 0x26 || byte == 0x64 || byte == 0x65;
}

/* Bytes between ModRM and what follows the address. */
static unsigned int address_bytes(uint8_t modrm, uint8_t next)
{
	unsigned int mode = modrm >> 6, base = modrm & 7, sib = base == 4;

	if (sib)
		base = next & 7;
	if (mode == 1)
		return sib + 1;
	return mode == 2 || base == 5 ? sib + 4 : sib;
}

/* A constant has 4 bytes at most, and its sign goes on in 8. */
static uint64_t constant(const uint8_t *at, unsigned int size)
{
	int32_t value;
	uint16_t half;

	memcpy(&value, at, sizeof(value));
	memcpy(&half, at, sizeof(half));
	return size == 2 ? half : (uint64_t)(int64_t)value;
}

static struct store decode(const greg_t *registers)
{
	struct store store = { .size = 4 };
	const uint8_t *at = store.bytes;
	uint8_t rex = 0, opcode, modrm;
	unsigned int length;

	store.has = peek((void *)registers[REG_RIP], store.bytes, INSTRUCTION_MAX);
	for (int i = 0; i < PREFIXES_MAX && is_prefix(*at); i++)
		if (*at++ == 0x66)
			store.size = 2;
	if ((*at & 0xf0) == 0x40)
		rex = *at++;
	if (rex & 8)
		store.size = 8;
	opcode = *at++;
	modrm = *at++;
	if (modrm >> 6 == 3)
		return store;
	at += address_bytes(modrm, *at);
	length = at - store.bytes;
	if (opcode == 0x89) {
		store.value = registers[numbered[(modrm >> 3 & 7) | (rex & 4) << 1]];
	} else if (opcode == 0xc7 && !(modrm >> 3 & 7)) {
		unsigned int more = store.size == 2 ? 2 : 4;

		if (length + more > store.has)
			return store;
		store.value = constant(at, store.size);
		length += more;
	} else {
		return store;
	}
	if (store.size < 8)
		store.value &= (1ull << 8 * store.size) - 1;
	store.length = length <= store.has ? length : 0;
	return store;
}
