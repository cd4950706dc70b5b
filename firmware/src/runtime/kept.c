/* SPDX-License-Identifier: Apache-2.0 */
#include "kept.h"

#include <string.h>

#include "poet/pager.h"
#include "poet/saved.h"

#define CHECK_BYTES 4u /* of a tensor of a batch */

/* --- layout --- */

static bool is_batch(const poet_kept *kept)
{
    return kept->kind == POET_RESIDENT_INPUT || kept->kind == POET_RESIDENT_TARGET;
}

bool poet_kept_is_unit(const poet_model *model, const poet_kept *kept)
{
    return kept->check < model->unit_count;
}

static uint32_t row_bytes(const poet_kept *kept)
{
    return kept->bytes / kept->rows;
}

/* A batch's tensor is whole words, and its check follows it: in its last block, or in one more. */
static uint32_t row_blocks(const poet_kept *kept)
{
    return is_batch(kept) ? kept->bytes / POET_BLOCK_BYTES + 1u : poet_blocks_of(row_bytes(kept));
}

bool poet_kept_bit(const uint32_t *words, uint32_t bit)
{
    return (words[bit / 32u] >> bit % 32u & 1u) != 0u;
}

void poet_kept_set_bits(uint32_t *words, uint32_t first, uint32_t count, bool value)
{
    for (uint32_t bit = first; bit < first + count; bit++) {
        const uint32_t mask = UINT32_C(1) << bit % 32u;
        words[bit / 32u] = value ? words[bit / 32u] | mask : words[bit / 32u] & ~mask;
    }
}

uint32_t poet_kept_homes(const poet_model *model)
{
    return model->commit_each > 1u ? 3u : 2u;
}

/* Units and rows of units. */
static uint32_t unit_bits(const poet_model *model)
{
    return model->commit_each > 1u ? model->bit_count / 2u : model->bit_count;
}

uint32_t poet_kept_home(const poet_model *model, const uint32_t *homes, uint32_t bit)
{
    const uint32_t low = poet_kept_bit(homes, bit) ? 1u : 0u;
    return model->commit_each > 1u && poet_kept_bit(homes, bit + unit_bits(model)) ? low + 2u : low;
}

uint32_t poet_kept_next_home(const poet_record *record, uint32_t bit)
{
    const poet_model *model = record->model;
    const uint32_t read = poet_kept_home(model, record->homes, bit);
    const uint32_t counts = poet_kept_home(model, record->counts, bit);
    return read == counts ? (read + poet_kept_homes(model) - 1u) % poet_kept_homes(model) : 3u - read - counts;
}

void poet_kept_move(poet_record *record)
{
    const uint32_t bits = unit_bits(record->model);
    for (uint32_t bit = 0; bit < bits; bit++) {
        if (poet_kept_bit(record->changed, bit)) {
            const uint32_t next = poet_kept_next_home(record, bit);
            poet_kept_set_bits(record->homes, bit, 1, (next & 1u) != 0u);
            if (record->model->commit_each > 1u) {
                poet_kept_set_bits(record->homes, bit + bits, 1, next > 1u);
            }
        }
    }
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

/* Whether a tensor begins at `*next`, which then moves past it; nothing wraps. */
static bool lies_next(const poet_kept *kept, uint32_t *next)
{
    if (kept->bytes == 0 || kept->rows == 0 || kept->bytes % kept->rows != 0 || kept->block != *next) {
        return false;
    }
    const uint64_t blocks = (uint64_t)kept->rows * row_blocks(kept);
    if (blocks > UINT32_MAX / 4u - *next) {
        return false;
    }
    *next += (uint32_t)blocks;
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

/* Whether the bits of the units follow one another, up to `end`. */
static bool bits_are_in_order(const poet_model *model, uint32_t units, uint32_t end)
{
    uint32_t next = 0;
    for (uint32_t unit = 0; unit < units; unit++) {
        const poet_kept *kept = kept_of_check(model, unit);
        if (kept->bit != next || kept->rows > end - next) {
            return false;
        }
        next += kept->rows;
    }
    return next == end;
}

/* Whether the tensors of some checks lie one after the other from `*end` on. */
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

__attribute__((cold)) bool poet_record_layout_is_sound(const poet_model *model)
{
    const uint32_t saved = poet_saved_bytes(model);
    const uint32_t of_residents = saved > 0 ? 1u : 0u;
    if (!residents_are_one(model) || model->unit_count < of_residents || model->check_count < model->unit_count) {
        return false;
    }
    uint32_t end = 0;
    const uint32_t bits = unit_bits(model);
    if (!lie_in_order(model, 0, model->unit_count - of_residents, &end) || bits < of_residents ||
        (model->commit_each > 1u && model->bit_count % 2u != 0u) ||
        !bits_are_in_order(model, model->unit_count - of_residents, bits - of_residents)) {
        return false;
    }
    end += poet_blocks_of(saved);
    if (end != model->home_blocks) {
        return false;
    }
    end *= poet_kept_homes(model);
    if (!lie_in_order(model, model->unit_count, (uint32_t)model->check_count - model->unit_count, &end) ||
        end != model->batch_block) {
        return false;
    }
    uint32_t checks = of_residents;
    for (uint32_t i = 0; i < model->kept_count; i++) {
        const poet_kept *kept = &model->kept[i];
        if (is_batch(kept) && (kept->check != POET_NO_CHECK || kept->rows != 1u || kept->bytes % CHECK_BYTES != 0 ||
                               !lies_next(kept, &end))) {
            return false;
        }
        checks += is_batch(kept) ? 0u : 1u;
    }
    return checks == model->check_count && end - model->batch_block == model->batch_blocks;
}

uint32_t poet_kept_block(const poet_model *model, uint32_t block, uint32_t home)
{
    return POET_CARD_DATA_BLOCK + block + home * model->home_blocks;
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

uint32_t poet_kept_row_block(const poet_record *record, const poet_kept *kept, uint32_t row, bool next)
{
    const uint32_t block = kept->block + row * row_blocks(kept);
    const uint32_t bit = kept->bit + row;
    const uint32_t home = !poet_kept_is_unit(record->model, kept) ? 0u
                          : next                                  ? poet_kept_next_home(record, bit)
                                                                  : poet_kept_home(record->model, record->homes, bit);
    return poet_kept_block(record->model, block, home);
}

static uint32_t batch_block(const poet_record *record, const poet_kept *kept, uint32_t batch)
{
    return poet_kept_row_block(record, kept, 0, false) + batch * record->model->batch_blocks;
}

/* With the check that follows it on the card: the CRC of its bytes, and the batch's number on top, so that a batch in
 * the place of another one does not pass. */
static int find_batch(const poet_record *record, const poet_kept *kept, uint32_t batch, poet_kept_place *place)
{
    uint8_t last[POET_BLOCK_BYTES];
    const uint32_t before = kept->bytes % POET_BLOCK_BYTES;
    const poet_block_device *device = record->device;
    *place = (poet_kept_place){.block = batch_block(record, kept, batch), .bytes = kept->bytes, .checked = true};
    const int status =
        device->read(device->context, place->block + kept->bytes / POET_BLOCK_BYTES, last, before + CHECK_BYTES);
    for (uint32_t i = 0; status == POET_OK && i < CHECK_BYTES; i++) {
        place->crc |= (uint32_t)last[before + i] << (8u * i);
    }
    place->crc -= batch;
    return status;
}

int poet_record_find(const poet_record *record, const poet_kept *kept, uint32_t row, poet_kept_place *place)
{
    if (record->sequence == 0 || (is_batch(kept) && record->batches == 0)) {
        return POET_E_ABSENT;
    }
    if (row >= kept->rows) {
        return POET_E_ARGUMENT;
    }
    if (is_batch(kept)) {
        return find_batch(record, kept, record->step % record->batches, place);
    }
    *place = (poet_kept_place){.block = poet_kept_row_block(record, kept, row, false), .bytes = row_bytes(kept)};
    if (kept->rows == 1u) {
        place->crc = record->checks[kept->check].crc;
        place->checked = true;
    }
    return POET_OK;
}

int poet_record_begin(const poet_record *record, const poet_kept *kept, uint32_t row, uint32_t *block)
{
    if (row >= kept->rows) {
        return POET_E_ARGUMENT;
    }
    *block = poet_kept_row_block(record, kept, row, true);
    return poet_kept_bit(record->changed, kept->bit + row) ? POET_E_ORDER : POET_OK;
}

void poet_record_end(poet_record *record, const poet_kept *kept, uint32_t crc)
{
    record->checks[kept->check].next_crc = crc;
    record->checks[kept->check].written = true;
    if (poet_kept_is_unit(record->model, kept)) {
        poet_kept_set_bits(record->changed, kept->bit, kept->rows, true);
    }
}

void poet_record_end_row(poet_record *record, const poet_kept *kept, uint32_t row, uint32_t crc_before,
                         uint32_t crc_after)
{
    poet_check *check = &record->checks[kept->check];
    check->next_crc = (check->written ? check->next_crc : check->crc) + crc_after - crc_before;
    check->written = true;
    poet_kept_set_bits(record->changed, kept->bit + row, 1, true);
}

/* --- the card, a block at a time --- */

static int crc_of(const poet_block_device *device, uint32_t block, uint32_t bytes, uint32_t *crc)
{
    uint8_t buffer[POET_BLOCK_BYTES];
    for (uint32_t left = bytes; left > 0;) {
        const uint32_t part = left < sizeof buffer ? left : (uint32_t)sizeof buffer;
        const int status = device->read(device->context, block++, buffer, part);
        if (status != POET_OK) {
            return status;
        }
        *crc = poet_pager_crc(device, *crc, buffer, part);
        left -= part;
    }
    return POET_OK;
}

int poet_kept_check_place(const poet_block_device *device, const poet_kept_place *place)
{
    for (uint32_t reads = 0; reads < POET_PAGE_READS; reads++) {
        uint32_t crc = 0;
        const int status = crc_of(device, place->block, place->bytes, &crc);
        if (status != POET_OK || crc == place->crc) {
            return status;
        }
    }
    return POET_E_CORRUPT;
}

/* The check of a tensor, in the homes that count or in the others. */
static int check_of(const poet_record *record, const poet_kept *kept, bool next, uint32_t *check)
{
    *check = 0;
    for (uint32_t row = 0; row < kept->rows; row++) {
        uint32_t crc = row;
        const int status = crc_of(record->device, poet_kept_row_block(record, kept, row, next), row_bytes(kept), &crc);
        if (status != POET_OK) {
            return status;
        }
        *check += crc;
    }
    return POET_OK;
}

int poet_kept_check(const poet_record *record, const poet_kept *kept)
{
    for (uint32_t reads = 0; reads < POET_PAGE_READS; reads++) {
        uint32_t check;
        const int status = check_of(record, kept, false, &check);
        if (status != POET_OK || check == record->checks[kept->check].crc) {
            return status;
        }
    }
    return POET_E_CORRUPT;
}

int poet_record_check_batch(const poet_record *record)
{
    int status = POET_OK;
    for (uint32_t i = 0; status == POET_OK && i < record->model->kept_count; i++) {
        poet_kept_place place;
        if (!is_batch(&record->model->kept[i])) {
            continue;
        }
        status = poet_record_find(record, &record->model->kept[i], 0, &place);
        if (status == POET_OK) {
            status = poet_kept_check_place(record->device, &place);
        }
    }
    return status;
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

/* Writes bytes into the middle of blocks; after a row's end they become zeros. */
static int patch(const poet_block_device *device, uint32_t block, uint32_t offset, const uint8_t *data, uint32_t bytes,
                 bool ends)
{
    uint8_t buffer[POET_BLOCK_BYTES];
    block += offset / POET_BLOCK_BYTES;
    offset %= POET_BLOCK_BYTES;
    while (bytes > 0) {
        const uint32_t room = POET_BLOCK_BYTES - offset;
        const uint32_t part = bytes < room ? bytes : room;
        const bool whole = part == POET_BLOCK_BYTES;
        int status = whole ? POET_OK : device->read(device->context, block, buffer, sizeof buffer);
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

/* Gives a batch's tensor that is whole on the card its check. */
static int put_check(const poet_record *record, const poet_kept *kept, uint32_t batch)
{
    uint8_t bytes[CHECK_BYTES];
    uint32_t crc = 0;
    const uint32_t block = batch_block(record, kept, batch);
    const int status = crc_of(record->device, block, kept->bytes, &crc);
    if (status != POET_OK) {
        return status;
    }
    for (uint32_t i = 0; i < CHECK_BYTES; i++) {
        bytes[i] = (uint8_t)((crc + batch) >> (8u * i));
    }
    return patch(record->device, block, kept->bytes, bytes, CHECK_BYTES, true);
}

/* Reads bytes from the middle of blocks. */
static int extract(const poet_block_device *device, uint32_t block, uint32_t offset, uint8_t *data, uint32_t bytes)
{
    uint8_t buffer[POET_BLOCK_BYTES];
    block += offset / POET_BLOCK_BYTES;
    offset %= POET_BLOCK_BYTES;
    while (bytes > 0) {
        const uint32_t room = POET_BLOCK_BYTES - offset;
        const uint32_t part = bytes < room ? bytes : room;
        const int status = device->read(device->context, block++, buffer, sizeof buffer);
        if (status != POET_OK) {
            return status;
        }
        memcpy(data, buffer + offset, part);
        data += part;
        bytes -= part;
        offset = 0;
    }
    return POET_OK;
}

/* How many of so many bytes from an offset on lie in the same row. */
static uint32_t in_row(const poet_kept *kept, uint32_t offset, uint32_t bytes)
{
    const uint32_t left = row_bytes(kept) - offset % row_bytes(kept);
    return bytes < left ? bytes : left;
}

int poet_record_put(poet_record *record, const poet_kept *kept, uint32_t offset, const uint8_t *data, uint32_t bytes)
{
    uint32_t batch;
    int status = locate(record, kept, &offset, bytes, &batch);
    if (status != POET_OK) {
        return status;
    }
    if (!is_batch(kept)) {
        record->checks[kept->check].written = false;
    }
    if (poet_kept_is_unit(record->model, kept)) {
        poet_kept_set_bits(record->changed, kept->bit, kept->rows, false);
    }
    const uint32_t size = row_bytes(kept);
    for (uint32_t part; bytes > 0; data += part, offset += part, bytes -= part) {
        part = in_row(kept, offset, bytes);
        const uint32_t block =
            poet_kept_row_block(record, kept, offset / size, true) + batch * record->model->batch_blocks;
        status = patch(record->device, block, offset % size, data, part, (offset + part) % size == 0);
        if (status != POET_OK) {
            return status;
        }
    }
    uint32_t check;
    if (offset < kept->bytes) {
        return POET_OK;
    }
    if (is_batch(kept)) {
        return put_check(record, kept, batch);
    }
    status = check_of(record, kept, true, &check);
    if (status == POET_OK) {
        poet_record_end(record, kept, check);
    }
    return status;
}

int poet_record_get(const poet_record *record, const poet_kept *kept, uint32_t offset, uint8_t *data, uint32_t bytes)
{
    uint32_t batch;
    int status = locate(record, kept, &offset, bytes, &batch);
    if (status == POET_OK && offset == 0 && is_batch(kept)) {
        poet_kept_place place;
        status = find_batch(record, kept, batch, &place);
        status = status == POET_OK ? poet_kept_check_place(record->device, &place) : status;
    } else if (status == POET_OK && offset == 0) {
        status = poet_kept_check(record, kept);
    }
    const uint32_t size = row_bytes(kept);
    for (uint32_t part; status == POET_OK && bytes > 0; data += part, offset += part, bytes -= part) {
        part = in_row(kept, offset, bytes);
        const uint32_t block =
            poet_kept_row_block(record, kept, offset / size, false) + batch * record->model->batch_blocks;
        status = extract(record->device, block, offset % size, data, part);
    }
    return status;
}
