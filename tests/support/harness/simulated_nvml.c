/* SPDX-License-Identifier: Apache-2.0 */
/* The part of NVIDIA's management library that the harness uses, for GPUs that draw 50 W each, or for a Jetson. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <time.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };

int counts_energy = 1;
unsigned gpus = 1;
unsigned divided = 0;
static int gpu;

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return SUCCESS;
}

const char *nvmlErrorString(int result)
{
    return result == NOT_SUPPORTED ? "Not Supported" : "Invalid Argument";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = gpus;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &gpu;
    return index < gpus ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
    (void)device;
    snprintf(name, length, "Simulated GPU");
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    (void)device;
    *current = *pending = divided;
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoule)
{
    struct timespec now;
    (void)device;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoule = (unsigned long long)now.tv_sec * 50000u + (unsigned long long)now.tv_nsec / 20000u;
    return counts_energy ? SUCCESS : NOT_SUPPORTED;
}
