/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/saved.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kept.h"
#include "poet/crc32.h"
#include "poet/finite.h"
#include "poet/memory.h"

uint32_t poet_blocks_of(uint32_t bytes)
{
    return bytes / POET_BLOCK_BYTES + (bytes % POET_BLOCK_BYTES != 0u);
}

static bool outlives_a_step(const poet_resident *resident)
{
    return (resident->kind == POET_RESIDENT_PARAMETER || resident->kind == POET_RESIDENT_STATE) && resident->bytes > 0;
}

/* One after the other, what a commit has. `residents` is NULL where its sizes are asked for alone. */
typedef struct pieces {
    const poet_model *model;
    const uint8_t *residents;
    const poet_record *kept;
    bool next; /* of the record the homes of next versions */
    uint32_t tensor;
    uint32_t row;
    const uint8_t *place;
    uint32_t bytes;
} pieces;

static bool next_piece(pieces *all)
{
    const poet_model *model = all->model;
    while (all->tensor < model->resident_count) {
        const poet_resident *resident = &model->residents[all->tensor++];
        if (outlives_a_step(resident)) {
            all->place = all->residents == NULL ? NULL : all->residents + resident->offset;
            all->bytes = resident->bytes;
            return true;
        }
    }
    const uint32_t end = all->kept == NULL ? 0u : (uint32_t)model->resident_count + model->kept_count;
    for (; all->tensor < end; all->tensor++, all->row = 0) {
        const poet_kept *kept = &model->kept[all->tensor - model->resident_count];
        if (kept->check == POET_NO_CHECK || all->row == kept->rows) {
            continue;
        }
        if (all->residents != NULL) {
            const uint32_t block = poet_kept_row_block(all->kept, kept, all->row, all->next);
            all->place = poet_memory_place(all->kept->device->context, block);
        }
        all->row++;
        all->bytes = kept->bytes / kept->rows;
        return true;
    }
    return false;
}

__attribute__((cold)) uint32_t poet_saved_blocks(const poet_model *model, const poet_record *kept)
{
    uint32_t blocks = 0;
    for (pieces all = {.model = model, .kept = kept}; next_piece(&all);) {
        const uint32_t more = poet_blocks_of(all.bytes);
        blocks = more > UINT32_MAX - blocks ? UINT32_MAX : blocks + more;
    }
    return blocks;
}

__attribute__((cold)) uint32_t poet_saved_crc(const poet_model *model, const uint8_t *residents,
                                              const poet_record *kept)
{
    uint32_t crc = 0;
    for (pieces all = {.model = model, .residents = residents, .kept = kept}; next_piece(&all);) {
        crc = poet_crc32_quick(crc, all.place, all.bytes);
    }
    return crc;
}

__attribute__((cold)) int poet_saved_check_finite(const poet_model *model, const uint8_t *residents)
{
    uint32_t marks = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        for (uint32_t at = 0; resident->kind == POET_RESIDENT_PARAMETER && at < resident->bytes; at += 4u) {
            float number;
            memcpy(&number, residents + resident->offset + at, sizeof number);
            marks |= poet_finite_mark(number);
        }
    }
    return (marks & POET_NOT_FINITE) == 0 ? POET_OK : POET_E_NOT_FINITE;
}

__attribute__((cold)) int poet_saved_write(const poet_block_device *device, const poet_model *model,
                                           const uint8_t *residents, const poet_record *kept, uint32_t block)
{
    for (pieces all = {.model = model, .residents = residents, .kept = kept}; next_piece(&all);) {
        const int status = device->write(device->context, block, all.place, all.bytes);
        if (status != POET_OK) {
            return status;
        }
        block += poet_blocks_of(all.bytes);
    }
    return device->sync(device->context);
}

/* Reads all through a buffer of one block, which a card's DMA reaches, and to where it belongs if that is known: the
 * places are then the caller's to write. */
__attribute__((cold)) static int read_once(const poet_block_device *device, pieces all, uint32_t block, uint32_t *crc)
{
    uint8_t buffer[POET_BLOCK_BYTES];
    *crc = 0;
    while (next_piece(&all)) {
        for (uint32_t at = 0; at < all.bytes; at += (uint32_t)sizeof buffer) {
            const uint32_t left = all.bytes - at;
            const uint32_t bytes = left < sizeof buffer ? left : (uint32_t)sizeof buffer;
            const int status = device->read(device->context, block++, buffer, bytes);
            if (status != POET_OK) {
                return status;
            }
            *crc = poet_crc32_quick(*crc, buffer, bytes);
            if (all.residents != NULL) {
                memcpy((uint8_t *)(uintptr_t)all.place + at, buffer, bytes);
            }
        }
    }
    return POET_OK;
}

static int read_checked(const poet_block_device *device, pieces all, uint32_t block, uint32_t crc)
{
    for (uint32_t reads = 0; reads < POET_SAVED_READS; reads++) {
        uint32_t found;
        const int status = read_once(device, all, block, &found);
        if (status != POET_OK || found == crc) {
            return status;
        }
    }
    return POET_E_CORRUPT;
}

int poet_saved_check(const poet_block_device *device, const poet_model *model, const poet_record *kept, uint32_t block,
                     uint32_t crc)
{
    return read_checked(device, (pieces){.model = model, .kept = kept}, block, crc);
}

__attribute__((cold)) int poet_saved_read(const poet_block_device *device, const poet_model *model, uint8_t *residents,
                                          const poet_record *kept, uint32_t block, uint32_t crc)
{
    const int status = poet_saved_check(device, model, kept, block, crc);
    const pieces all = {.model = model, .residents = residents, .kept = kept, .next = true};
    return status != POET_OK ? status : read_checked(device, all, block, crc);
}
