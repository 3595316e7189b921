// SPDX-License-Identifier: GPL-2.0
// [double] A management library for tests: two processes, and the modes that the macros below say.

#include <stddef.h>
#include <string.h>

// Results of the interface.
enum { SUCCESS = 0, INVALID = 2, NO_PERMISSION = 4, NOT_FOUND = 6, SMALL = 7 };

static int initialised;
static unsigned int accounting = ACCOUNTING;
static unsigned int changes;

struct sample {
	unsigned int pid;
	unsigned long long time_us;
	unsigned int sm, memory, encoder, decoder;
};

struct stats {
	unsigned int gpu, memory;
	unsigned long long max_memory, time_ms, start_us;
	unsigned int is_running, reserved[5];
};

int nvmlInit_v2(void)
{
	if (INIT != SUCCESS)
		return INIT;
	initialised++;
	return SUCCESS;
}

int nvmlShutdown(void)
{
	initialised--;
	return SUCCESS;
}

const char *nvmlErrorString(int status)
{
	return status == NO_PERMISSION ? "Insufficient Permissions" : "Some Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned int length)
{
	memset(text, 'x', length);
	if (length < 11)
		return SMALL;
	memcpy(text, "580.159.04", 11);
	return SUCCESS;
}

#ifndef OLD
int nvmlSystemGetConfComputeState(unsigned int *state)
{
	state[0] = 2;
	state[1] = 1;
	state[2] = 0;
	return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *infos)
{
	if (infos)
		return INVALID;
	*count = 2;
	return SMALL;
}
#endif

int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned int *count, void *infos)
{
	*count = 0;
	return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device)
{
	if (strcmp(address, "0000:01:00.0"))
		return NOT_FOUND;
	*device = &accounting;
	return SUCCESS;
}

int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *pending)
{
	*now = 0;
	*pending = 1;
	return SUCCESS;
}

int nvmlDeviceGetPersistenceMode(void *device, unsigned int *mode)
{
	*mode = 1;
	return SUCCESS;
}

int nvmlDeviceGetVirtualizationMode(void *device, unsigned int *mode)
{
	*mode = 1;
	return SUCCESS;
}

int nvmlDeviceGetAccountingMode(void *device, unsigned int *mode)
{
	*mode = accounting;
	return device == &accounting ? SUCCESS : INVALID;
}

int nvmlDeviceSetAccountingMode(void *device, unsigned int mode)
{
	if (SET != SUCCESS)
		return SET;
	accounting = mode;
	changes++;
	return SUCCESS;
}

int nvmlDeviceGetAccountingPids(void *device, unsigned int *count, unsigned int *pids)
{
	if (*count < 3)
		return SMALL;
	*count = 3;
	pids[0] = 100;
	pids[1] = 200;
	pids[2] = 300;
	return SUCCESS;
}

int nvmlDeviceGetAccountingStats(void *device, unsigned int pid, struct stats *stats)
{
	if (pid == 200)
		return NOT_FOUND;
	stats->gpu = pid / 10;
	stats->memory = 99;
	stats->time_ms = 1000 + pid;
	stats->start_us = 98;
	stats->is_running = pid == 300;
	return SUCCESS;
}

int nvmlDeviceGetProcessUtilization(void *device, struct sample *samples, unsigned int *count,
				    unsigned long long since)
{
	if (since > 2000)
		return NOT_FOUND;
	if (*count < 3)
		return SMALL;
	*count = 3;
	samples[0] = (struct sample){ 100, 1000, 40, 5, 97, 96 };
	samples[1] = (struct sample){ 200, 2000, 60, 6, 97, 96 };
	return SUCCESS;
}

// For the test: whether it is initialised, and how often accounting was switched.
int standin_initialised(unsigned int *value)
{
	*value = initialised;
	return SUCCESS;
}

int standin_changes(void *device, unsigned int *value)
{
	*value = changes;
	return SUCCESS;
}
