/* SPDX-License-Identifier: Apache-2.0 */
#include "kept.h"

#include <string.h>

#include "poet/crc32.h"
#include "poet/pager.h"
#include "poet/saved.h"

/* --- layout --- */

static bool is_batch(const poet_kept *kept)
{
    return kept->kind == POET_RESIDENT_INPUT || kept->kind == POET_RESIDENT_TARGET;
}

bool poet_kept_is_unit(const poet_model *model, const poet_kept *kept)
{
    return kept->check < model->unit_count;
}

/* Whether the residents that outlive a step begin the region, without gaps: they are one unit. */
static bool residents_are_one(const poet_model *model)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (resident->kind == POET_RESIDENT_PARAMETER || resident->kind == POET_RESIDENT_STATE) {
            if (resident->offset != end) {
                return false;
            }
            end += resident->bytes;
        }
    }
    return true;
}

/* Whether a tensor begins at `*next`, which then moves behind it; nothing wraps. */
static bool lies_next(const poet_kept *kept, uint32_t *next)
{
    const uint32_t blocks = poet_blocks_of(kept->bytes);
    if (kept->bytes == 0 || kept->block != *next || blocks > UINT32_MAX / 4u - *next) {
        return false;
    }
    *next += blocks;
    return true;
}

static const poet_kept *kept_of_check(const poet_model *model, uint32_t check)
{
    for (uint32_t i = 0; i < model->kept_count; i++) {
        if (model->kept[i].check == check) {
            return &model->kept[i];
        }
    }
    return NULL;
}

/* Whether the tensors of some checks lie one behind the other from `*end` on. */
static bool lie_in_order(const poet_model *model, uint32_t first, uint32_t count, uint32_t *end)
{
    for (uint32_t check = first; check < first + count; check++) {
        const poet_kept *kept = kept_of_check(model, check);
        if (kept == NULL || is_batch(kept) || !lies_next(kept, end)) {
            return false;
        }
    }
    return true;
}

bool poet_record_layout_is_sound(const poet_model *model)
{
    if (model->kept_count == 0) {
        return model->unit_count == 0 && model->check_count == 0;
    }
    const uint32_t saved = poet_saved_bytes(model);
    const uint32_t of_residents = saved > 0 ? 1u : 0u;
    if (!residents_are_one(model) || model->unit_count < of_residents || model->check_count < model->unit_count) {
        return false;
    }
    uint32_t end = 0;
    if (!lie_in_order(model, 0, model->unit_count - of_residents, &end)) {
        return false;
    }
    end += poet_blocks_of(saved);
    if (end != model->home_blocks) {
        return false;
    }
    end *= 2u;
    if (!lie_in_order(model, model->unit_count, (uint32_t)model->check_count - model->unit_count, &end) ||
        end != model->batch_block) {
        return false;
    }
    uint32_t checks = of_residents;
    for (uint32_t i = 0; i < model->kept_count; i++) {
        const poet_kept *kept = &model->kept[i];
        if (is_batch(kept) && (kept->check != POET_NO_CHECK || !lies_next(kept, &end))) {
            return false;
        }
        checks += is_batch(kept) ? 0u : 1u;
    }
    return checks == model->check_count && end - model->batch_block == model->batch_blocks;
}

uint32_t poet_kept_block(const poet_model *model, uint32_t block, bool second)
{
    return POET_CARD_DATA_BLOCK + block + (second ? model->home_blocks : 0u);
}

int poet_record_set_batches(poet_record *record, uint32_t batches)
{
    const uint64_t blocks =
        (uint64_t)POET_CARD_DATA_BLOCK + record->model->batch_block + (uint64_t)batches * record->model->batch_blocks;
    if (blocks > record->device->block_count) {
        return POET_E_FULL;
    }
    record->batches = batches;
    return POET_OK;
}

uint32_t poet_record_page_block(const poet_record *record)
{
    return POET_CARD_DATA_BLOCK + record->model->batch_block + record->batches * record->model->batch_blocks;
}

/* --- what a step reads and writes --- */

static poet_kept_place find(const poet_record *record, const poet_kept *kept, uint32_t batch)
{
    if (is_batch(kept)) {
        const uint32_t block = poet_kept_block(record->model, kept->block, false) + batch * record->model->batch_blocks;
        return (poet_kept_place){.block = block, .bytes = kept->bytes};
    }
    const poet_check *check = &record->checks[kept->check];
    const bool second = poet_kept_is_unit(record->model, kept) && check->second;
    return (poet_kept_place){.block = poet_kept_block(record->model, kept->block, second),
                             .bytes = kept->bytes,
                             .crc = check->crc,
                             .checked = true};
}

int poet_record_find(const poet_record *record, const poet_kept *kept, poet_kept_place *place)
{
    if (record->sequence == 0 || (is_batch(kept) && record->batches == 0)) {
        return POET_E_ABSENT;
    }
    *place = find(record, kept, is_batch(kept) ? record->step % record->batches : 0u);
    return POET_OK;
}

static uint32_t next_home(const poet_record *record, const poet_kept *kept)
{
    return poet_kept_block(record->model, kept->block, !record->checks[kept->check].second);
}

int poet_record_begin(const poet_record *record, const poet_kept *kept, uint32_t *block)
{
    *block = next_home(record, kept);
    return record->checks[kept->check].written ? POET_E_ORDER : POET_OK;
}

void poet_record_end(poet_record *record, const poet_kept *kept, uint32_t crc)
{
    record->checks[kept->check].next_crc = crc;
    record->checks[kept->check].written = true;
}

/* --- the card, a block at a time --- */

static int crc_of(const poet_block_device *device, uint32_t block, uint32_t bytes, uint32_t *crc)
{
    uint8_t buffer[POET_BLOCK_BYTES];
    *crc = 0;
    for (uint32_t left = bytes; left > 0;) {
        const uint32_t part = left < sizeof buffer ? left : (uint32_t)sizeof buffer;
        const int status = device->read(device->context, block++, buffer, part);
        if (status != POET_OK) {
            return status;
        }
        *crc = poet_crc32(*crc, buffer, part);
        left -= part;
    }
    return POET_OK;
}

int poet_kept_check(const poet_block_device *device, const poet_kept_place *place)
{
    for (uint32_t reads = 0; place->checked && reads < POET_PAGE_READS; reads++) {
        uint32_t crc;
        const int status = crc_of(device, place->block, place->bytes, &crc);
        if (status != POET_OK || crc == place->crc) {
            return status;
        }
    }
    return place->checked ? POET_E_CORRUPT : POET_OK;
}

/* Splits an offset through all batches into batch and offset within it. */
static int locate(const poet_record *record, const poet_kept *kept, uint32_t *offset, uint32_t bytes, uint32_t *batch)
{
    *batch = 0;
    if (is_batch(kept)) {
        *batch = *offset / kept->bytes;
        *offset %= kept->bytes;
        if (*batch >= record->batches) {
            return POET_E_ARGUMENT;
        }
    }
    return bytes <= kept->bytes && *offset <= kept->bytes - bytes ? POET_OK : POET_E_ARGUMENT;
}

/* Writes bytes into the middle of blocks; behind a tensor's end they become zeros. */
static int patch(const poet_block_device *device, uint32_t block, uint32_t offset, const uint8_t *data, uint32_t bytes,
                 bool ends)
{
    uint8_t buffer[POET_BLOCK_BYTES];
    block += offset / POET_BLOCK_BYTES;
    offset %= POET_BLOCK_BYTES;
    while (bytes > 0) {
        const uint32_t room = POET_BLOCK_BYTES - offset;
        const uint32_t part = bytes < room ? bytes : room;
        int status = device->read(device->context, block, buffer, sizeof buffer);
        if (status != POET_OK) {
            return status;
        }
        memcpy(buffer + offset, data, part);
        if (ends && part == bytes) {
            memset(buffer + offset + part, 0, room - part);
        }
        status = device->write(device->context, block++, buffer, sizeof buffer);
        if (status != POET_OK) {
            return status;
        }
        data += part;
        bytes -= part;
        offset = 0;
    }
    return POET_OK;
}

int poet_record_put(poet_record *record, const poet_kept *kept, uint32_t offset, const uint8_t *data, uint32_t bytes)
{
    uint32_t batch;
    int status = locate(record, kept, &offset, bytes, &batch);
    if (status != POET_OK) {
        return status;
    }
    const bool ends = offset + bytes == kept->bytes;
    const uint32_t block =
        poet_kept_is_unit(record->model, kept) ? next_home(record, kept) : find(record, kept, batch).block;
    if (!is_batch(kept)) {
        record->checks[kept->check].written = false;
    }
    status = patch(record->device, block, offset, data, bytes, ends);
    if (status != POET_OK || !ends || is_batch(kept)) {
        return status;
    }
    uint32_t crc;
    status = crc_of(record->device, block, kept->bytes, &crc);
    if (status == POET_OK) {
        poet_record_end(record, kept, crc);
    }
    return status;
}

int poet_record_get(const poet_record *record, const poet_kept *kept, uint32_t offset, uint8_t *data, uint32_t bytes)
{
    uint32_t batch;
    int status = locate(record, kept, &offset, bytes, &batch);
    if (status != POET_OK) {
        return status;
    }
    const poet_kept_place place = find(record, kept, batch);
    if (offset == 0) {
        status = poet_kept_check(record->device, &place);
    }
    uint8_t buffer[POET_BLOCK_BYTES];
    uint32_t block = place.block + offset / POET_BLOCK_BYTES;
    offset %= POET_BLOCK_BYTES;
    while (status == POET_OK && bytes > 0) {
        const uint32_t room = POET_BLOCK_BYTES - offset;
        const uint32_t part = bytes < room ? bytes : room;
        status = record->device->read(record->device->context, block++, buffer, sizeof buffer);
        if (status == POET_OK) {
            memcpy(data, buffer + offset, part);
        }
        data += part;
        bytes -= part;
        offset = 0;
    }
    return status;
}
