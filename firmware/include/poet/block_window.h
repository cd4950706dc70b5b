/* SPDX-License-Identifier: Apache-2.0 */
/* Part of a storage device as a device of its own, for a card that holds a file system too: some blocks in a row, those
 * of one contiguous file for instance, are poet's. All others stay as they are.
 *
 *     poet_block_window window;
 *     poet_block_device part;
 *     poet_block_window_open(&window, &card, 8192, 65536, &part); // POET_E_ARGUMENT: the card ends before
 */
#ifndef POET_BLOCK_WINDOW_H
#define POET_BLOCK_WINDOW_H

#include <stdint.h>

#include "poet/block_device.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_block_window {
    const poet_block_device *device;
    uint32_t first;
    uint32_t count;
} poet_block_window;

/* Block 0 of `part` is block `first` of `device`; it has `count` blocks. What lies beyond is refused (POET_E_FULL).
 * Window and device have to outlive `part`. */
int poet_block_window_open(poet_block_window *window, const poet_block_device *device, uint32_t first, uint32_t count,
                           poet_block_device *part);

#ifdef __cplusplus
}
#endif

#endif
