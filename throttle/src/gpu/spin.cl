// SPDX-License-Identifier: GPL-2.0

// One work item that takes a given number of rounds. Each round needs the one before it,
// and the last one is stored, so that a compiler can leave none out.
__kernel void spin(ulong rounds, __global uint *result)
{
	uint value = (uint)rounds | 1u;
	for (ulong i = 0; i < rounds; i++) {
		value ^= value << 13;
		value ^= value >> 17;
		value ^= value << 5;
	}
	*result = value;
}
