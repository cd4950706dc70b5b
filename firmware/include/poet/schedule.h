/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule: what generated poet_schedule.h fills in. Byte for byte in docs/SPEC.md. */
#ifndef POET_SCHEDULE_H
#define POET_SCHEDULE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum poet_action {
    POET_COMPUTE = 1,  /* index: node; place: index into `offsets` of its value outputs in order, then its workspace */
    POET_PAGE_IN = 2,  /* index: value; place: its arena offset in bytes */
    POET_PAGE_OUT = 3, /* index: value; place: unused, 0 */
    POET_FREE = 4      /* index: value, or POET_NO_VALUE for one of 0 bytes: nothing to do; place: unused, 0 */
} poet_action;

#define POET_NO_VALUE 0xffffu

typedef struct poet_step {
    uint8_t action;
    uint8_t reserved;
    uint16_t index;
    uint32_t place;
} poet_step;

typedef struct poet_schedule {
    uint64_t graph_hash;  /* must equal the model's */
    uint64_t hash;        /* its own: the host knows by it which schedule this is */
    uint32_t peak_bytes;  /* predicted, resident tensors included */
    uint32_t arena_bytes; /* what the static offsets need, without the resident tensors */
    uint32_t step_count;
    uint32_t offset_count; /* entries of `offsets`, so that a damaged table is refused, not followed */
    uint16_t live_count;   /* most blocks of the arena at once, a node's workspace included */
    uint16_t page_count;   /* values that are paged */
    const poet_step *steps;
    const uint32_t *offsets;
} poet_schedule;

#ifdef __cplusplus
}
#endif

#endif
