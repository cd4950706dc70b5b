/* SPDX-License-Identifier: Apache-2.0 */
/* A storage device behind callbacks, as the pager and the benchmarks see it.
 *
 *     poet_block_device card;
 *     poet_sdcard_init(&card, ...);                  // or a file, or a RAM disk with faults injected
 *     card.write(card.context, 40, activation, 5000);  // blocks 40..49, the last one padded with zeros
 *     card.read(card.context, 40, activation, 5000);
 *
 * Blocks are 512 bytes. `bytes` need not be a multiple of that: a write pads its last block with zeros,
 * a read drops what lies beyond. The caller owns every buffer. All functions return POET_OK or a negative
 * poet_status.
 *
 * A device that can move data while the CPU computes also sets `start_read`, `start_write` and `wait`; at
 * most one transfer is under way, and its buffer must stay untouched until `wait` has returned. They are
 * NULL on a device without DMA.
 *
 * Flash is erased in units of `erase_blocks`, whole ones at a time. Then each of its blocks is written once, and what a
 * write leaves of the last one stays erased. It keeps commits, and no pages.
 */
#ifndef POET_BLOCK_DEVICE_H
#define POET_BLOCK_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define POET_BLOCK_BYTES 512u

typedef struct poet_block_device {
    void *context;
    uint32_t block_count;
    int (*read)(void *context, uint32_t block, void *data, uint32_t bytes);
    int (*write)(void *context, uint32_t block, const void *data, uint32_t bytes);
    int (*sync)(void *context);
    int (*start_read)(void *context, uint32_t block, void *data, uint32_t bytes);
    int (*start_write)(void *context, uint32_t block, const void *data, uint32_t bytes);
    int (*wait)(void *context);
    uint32_t erase_blocks; /* 0: it needs no erasing */
    int (*erase)(void *context, uint32_t block, uint32_t blocks);
    bool forgets;                            /* memory: what lies there ends with the power, and needs no checks */
    const struct poet_block_device *lasting; /* of memory: where commits go; NULL: they are refused */
} poet_block_device;

#ifdef __cplusplus
}
#endif

#endif
