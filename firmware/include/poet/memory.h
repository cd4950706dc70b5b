/* SPDX-License-Identifier: Apache-2.0 */
/* Slow memory in the memory map, PSRAM say, as storage for pages and parameters. A transfer is a copy by the core, and
 * nothing there is checked: it is memory. What lies there does not outlive the power: it is labelled for poet where it
 * is not, and commits go to another device, labelled too:
 *
 *     poet_memory_init(slow, sizeof slow, &memory);
 *     memory.lasting = &card; // or flash; before poet_begin
 */
#ifndef POET_MEMORY_H
#define POET_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "poet/block_device.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `memory` is aligned to 4, and outlives `device`. POET_E_ABSENT: there is none; POET_E_FULL: it is too small. */
int poet_memory_init(void *memory, uint32_t bytes, poet_block_device *device);

/* Where a block lies. */
static inline uint8_t *poet_memory_place(void *memory, uint32_t block)
{
    return (uint8_t *)memory + (size_t)block * POET_BLOCK_BYTES;
}

#ifdef __cplusplus
}
#endif

#endif
