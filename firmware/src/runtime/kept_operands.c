/* SPDX-License-Identifier: Apache-2.0 */
#include "kept_operands.h"

#include <string.h>

#include "poet/crc32.h"

int poet_kept_operands_write(void *context, uint32_t output, const void *data, uint32_t bytes)
{
    poet_kept_operands *operands = context;
    const poet_kept *kept = operands->outputs[output];
    const poet_block_device *device = operands->record->device;
    int status = POET_OK;
    if (operands->written.done == 0) {
        operands->written.crc = 0;
        status = poet_record_begin(operands->record, kept, 0, &operands->written.block);
    }
    if (status == POET_OK) {
        status = bytes <= kept->bytes - operands->written.done
                     ? device->write(device->context, operands->written.block, data, bytes)
                     : POET_E_CORRUPT;
    }
    if (status != POET_OK) {
        return status;
    }
    operands->written.crc = poet_crc32(operands->written.crc, data, bytes);
    operands->written.block += bytes / POET_BLOCK_BYTES;
    operands->written.done += bytes;
    if (operands->written.done == kept->bytes) {
        poet_record_end(operands->record, kept, operands->written.crc);
        operands->written.done = 0;
    }
    return POET_OK;
}

int poet_kept_operands_write_row(void *context, uint32_t output, uint32_t row, void *before, const void *after)
{
    const poet_kept_operands *operands = context;
    const poet_kept *kept = operands->outputs[output];
    const poet_block_device *device = operands->record->device;
    const uint32_t bytes = kept->bytes / kept->rows;
    const uint32_t crc_before = poet_crc32(row, before, bytes);
    uint32_t block;
    int status = poet_record_begin(operands->record, kept, row, &block);
    if (status == POET_OK) {
        status = device->write(device->context, block, after, bytes);
    }
    if (status == POET_OK) {
        status = device->read(device->context, block, before, bytes);
    }
    if (status == POET_OK && memcmp(before, after, bytes) != 0) {
        status = POET_E_CORRUPT;
    }
    if (status == POET_OK) {
        poet_record_end_row(operands->record, kept, row, crc_before, poet_crc32(row, after, bytes));
    }
    return status;
}

int poet_kept_operands_read(void *context, uint32_t input, uint32_t offset, void *data, uint32_t bytes)
{
    poet_kept_operands *operands = context;
    const poet_kept *kept = operands->inputs[input];
    const uint32_t row_bytes = kept->bytes / kept->rows;
    const uint32_t row = offset / row_bytes;
    offset %= row_bytes;
    if (offset % POET_BLOCK_BYTES != 0 || bytes > row_bytes || offset > row_bytes - bytes) {
        return POET_E_ARGUMENT;
    }
    const int status = poet_record_find(operands->record, kept, row, &operands->read.place);
    if (status != POET_OK) {
        return status;
    }
    if (offset == 0) {
        operands->read.done = 0;
        operands->read.crc = 0;
    }
    operands->read.in_order = offset == operands->read.done;
    operands->read.data = data;
    operands->read.bytes = bytes;
    return poet_pager_start_unchecked_in(operands->pager, operands->read.place.block + offset / POET_BLOCK_BYTES, data,
                                         bytes);
}

int poet_kept_operands_wait(void *context)
{
    poet_kept_operands *operands = context;
    const poet_kept_place *place = &operands->read.place;
    const int status = poet_pager_wait(operands->pager);
    if (status != POET_OK || !operands->read.in_order || !place->checked) {
        return status;
    }
    operands->read.crc = poet_crc32(operands->read.crc, operands->read.data, operands->read.bytes);
    operands->read.done += operands->read.bytes;
    return operands->read.done < place->bytes || operands->read.crc == place->crc ? POET_OK : POET_E_CORRUPT;
}
