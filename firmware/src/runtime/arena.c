/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/arena.h"

#include <stdbool.h>
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

static bool is_free(const poet_arena *arena, uint32_t offset, uint32_t end)
{
    for (uint32_t i = 0; i < arena->live_count; i++) {
        const poet_block *block = &arena->live[i];
        if (block->offset < end && block->offset + block->bytes > offset) {
            return false;
        }
    }
    return true;
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
    if (!is_free(arena, offset, end)) {
        return POET_E_MEMORY;
    }

    arena->live[arena->live_count++] = (poet_block){offset, bytes, owner};
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

/* From the youngest block on, since most values are read soon. */
static poet_block *block_of(const poet_arena *arena, uint16_t owner)
{
    for (uint32_t i = arena->live_count; i > 0; i--) {
        if (arena->live[i - 1u].owner == owner) {
            return &arena->live[i - 1u];
        }
    }
    return NULL;
}

const poet_block *poet_arena_find(const poet_arena *arena, uint16_t owner)
{
    return block_of(arena, owner);
}

int poet_arena_release(poet_arena *arena, uint16_t owner)
{
    poet_block *block = block_of(arena, owner);
    if (block == NULL) {
        return POET_E_MEMORY;
    }
    arena->live_bytes -= block->bytes;
    *block = arena->live[--arena->live_count];
    return POET_OK;
}
