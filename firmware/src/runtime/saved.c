/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/saved.h"

#include <stdbool.h>
#include <string.h>

#include "poet/crc32.h"
#include "poet/finite.h"

uint32_t poet_blocks_of(uint32_t bytes)
{
    return bytes / POET_BLOCK_BYTES + (bytes % POET_BLOCK_BYTES != 0u);
}

static bool outlives_a_step(const poet_resident *resident)
{
    return (resident->kind == POET_RESIDENT_PARAMETER || resident->kind == POET_RESIDENT_STATE) && resident->bytes > 0;
}

__attribute__((cold)) uint32_t poet_saved_blocks(const poet_model *model)
{
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const uint32_t more = outlives_a_step(&model->residents[i]) ? poet_blocks_of(model->residents[i].bytes) : 0u;
        blocks = more > UINT32_MAX - blocks ? UINT32_MAX : blocks + more;
    }
    return blocks;
}

__attribute__((cold)) uint32_t poet_saved_crc(const poet_model *model, const uint8_t *residents)
{
    uint32_t crc = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (outlives_a_step(resident)) {
            crc = poet_crc32_quick(crc, residents + resident->offset, resident->bytes);
        }
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
                                           const uint8_t *residents, uint32_t block)
{
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (!outlives_a_step(resident)) {
            continue;
        }
        const int status = device->write(device->context, block, residents + resident->offset, resident->bytes);
        if (status != POET_OK) {
            return status;
        }
        block += poet_blocks_of(resident->bytes);
    }
    return device->sync(device->context);
}

/* CRC of them as they are on the card, read through a buffer of one block. */
__attribute__((cold)) static int check_once(const poet_block_device *device, const poet_model *model, uint32_t block,
                                            uint32_t *crc)
{
    uint8_t buffer[POET_BLOCK_BYTES];
    *crc = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        uint32_t left = outlives_a_step(&model->residents[i]) ? model->residents[i].bytes : 0;
        while (left > 0) {
            const uint32_t bytes = left < sizeof buffer ? left : (uint32_t)sizeof buffer;
            const int status = device->read(device->context, block++, buffer, bytes);
            if (status != POET_OK) {
                return status;
            }
            *crc = poet_crc32_quick(*crc, buffer, bytes);
            left -= bytes;
        }
    }
    return POET_OK;
}

int poet_saved_check(const poet_block_device *device, const poet_model *model, uint32_t block, uint32_t crc)
{
    for (uint32_t reads = 0; reads < POET_SAVED_READS; reads++) {
        uint32_t found;
        const int status = check_once(device, model, block, &found);
        if (status != POET_OK || found == crc) {
            return status;
        }
    }
    return POET_E_CORRUPT;
}

static int read_once(const poet_block_device *device, const poet_model *model, uint8_t *residents, uint32_t block)
{
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (!outlives_a_step(resident)) {
            continue;
        }
        const int status = device->read(device->context, block, residents + resident->offset, resident->bytes);
        if (status != POET_OK) {
            return status;
        }
        block += poet_blocks_of(resident->bytes);
    }
    return POET_OK;
}

__attribute__((cold)) int poet_saved_read(const poet_block_device *device, const poet_model *model, uint8_t *residents,
                                          uint32_t block, uint32_t crc)
{
    int status = poet_saved_check(device, model, block, crc);
    for (uint32_t reads = 0; status == POET_OK && reads < POET_SAVED_READS; reads++) {
        status = read_once(device, model, residents, block);
        if (status == POET_OK && poet_saved_crc(model, residents) == crc) {
            return POET_OK;
        }
    }
    return status != POET_OK ? status : POET_E_CORRUPT;
}
