/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: memory in which the schedule, not the firmware, decides what lies where.
 *
 * It hands out exactly the places it is asked for and records them, so that a wrong schedule is caught before it
 * overwrites a live tensor, and so that the peak that was really used can be held against the planned one. Each block
 * has an owner, a number of the caller's, by which it is found again: the table is as long as there are live blocks.
 *
 *     poet_block table[3];
 *     poet_arena arena;
 *     poet_arena_init(&arena, memory, 4096, table, 3);
 *     void *y;
 *     poet_arena_take(&arena, 7, 0, 1024, &y);   // POET_OK
 *     poet_arena_take(&arena, 8, 512, 64, &y);   // POET_E_MEMORY: overlaps the first block
 *     poet_arena_release(&arena, 7);
 */
#ifndef POET_ARENA_H
#define POET_ARENA_H

#include <stdint.h>

#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_block {
    uint32_t offset;
    uint32_t bytes;
    uint16_t owner;
} poet_block;

typedef struct poet_arena {
    uint8_t *memory;
    uint32_t bytes;
    poet_block *live; /* in any order; caller-owned */
    uint32_t capacity;
    uint32_t live_count;
    uint32_t live_bytes;
    uint32_t peak_bytes; /* the most `live_bytes` has been since poet_arena_begin_peak */
    uint32_t high_water; /* the highest end of a block since poet_arena_clear */
} poet_arena;

/* `memory` must be aligned to 4. */
void poet_arena_init(poet_arena *arena, void *memory, uint32_t bytes, poet_block *table, uint32_t capacity);

/* Forgets every block and both marks. */
void poet_arena_clear(poet_arena *arena);

/* Begins a new peak with the blocks that are live now. */
void poet_arena_begin_peak(poet_arena *arena);

/* Takes `bytes`, rounded up to 4, at `offset` and gives their address. POET_E_MEMORY, with nothing changed, if the
 * offset is not a multiple of 4, the block is empty, lies outside or overlaps a live one, or the table is full. The
 * caller sees to it that an owner has one live block at most. */
int poet_arena_take(poet_arena *arena, uint16_t owner, uint32_t offset, uint32_t bytes, void **memory);

/* The owner's live block, or NULL. */
const poet_block *poet_arena_find(const poet_arena *arena, uint16_t owner);

/* Releases the owner's block. POET_E_MEMORY if there is none. */
int poet_arena_release(poet_arena *arena, uint16_t owner);

#ifdef __cplusplus
}
#endif

#endif
