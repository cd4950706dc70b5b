/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/arena.h"

#include <stddef.h>

void poet_arena_init(poet_arena *arena, void *memory, uint32_t bytes, poet_block *table, uint32_t capacity)
{
    arena->memory = memory;
    arena->bytes = bytes;
    arena->live = table;
    arena->capacity = capacity;
    poet_arena_clear(arena);
}

void poet_arena_clear(poet_arena *arena)
{
    arena->live_count = 0;
    arena->live_bytes = 0;
    arena->peak_bytes = 0;
    arena->high_water = 0;
}

void poet_arena_begin_peak(poet_arena *arena)
{
    arena->peak_bytes = arena->live_bytes;
}

/* Index of the first live block at or behind `offset`. */
static uint32_t first_from(const poet_arena *arena, uint32_t offset)
{
    uint32_t low = 0;
    uint32_t high = arena->live_count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2u;
        if (arena->live[middle].offset < offset) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return low;
}

int poet_arena_take(poet_arena *arena, uint16_t owner, uint32_t offset, uint32_t bytes, void **memory)
{
    if (bytes == 0 || bytes > arena->bytes || offset % 4u != 0) {
        return POET_E_MEMORY;
    }
    bytes = (bytes + 3u) / 4u * 4u;
    if (bytes > arena->bytes || offset > arena->bytes - bytes || arena->live_count == arena->capacity) {
        return POET_E_MEMORY;
    }

    const uint32_t end = offset + bytes;
    const uint32_t place = first_from(arena, offset);
    if (place < arena->live_count && arena->live[place].offset < end) {
        return POET_E_MEMORY;
    }
    if (place > 0 && arena->live[place - 1u].offset + arena->live[place - 1u].bytes > offset) {
        return POET_E_MEMORY;
    }

    for (uint32_t i = arena->live_count; i > place; i--) {
        arena->live[i] = arena->live[i - 1u];
    }
    arena->live[place] = (poet_block){offset, bytes, owner};
    arena->live_count++;
    arena->live_bytes += bytes;
    if (arena->live_bytes > arena->peak_bytes) {
        arena->peak_bytes = arena->live_bytes;
    }
    if (end > arena->high_water) {
        arena->high_water = end;
    }
    *memory = arena->memory + offset;
    return POET_OK;
}

const poet_block *poet_arena_find(const poet_arena *arena, uint16_t owner)
{
    for (uint32_t i = 0; i < arena->live_count; i++) {
        if (arena->live[i].owner == owner) {
            return &arena->live[i];
        }
    }
    return NULL;
}

int poet_arena_release(poet_arena *arena, uint16_t owner)
{
    const poet_block *block = poet_arena_find(arena, owner);
    if (block == NULL) {
        return POET_E_MEMORY;
    }
    arena->live_bytes -= block->bytes;
    arena->live_count--;
    for (uint32_t i = (uint32_t)(block - arena->live); i < arena->live_count; i++) {
        arena->live[i] = arena->live[i + 1u];
    }
    return POET_OK;
}
