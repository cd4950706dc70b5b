/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/checkpoint.h"

#include <stdbool.h>
#include <string.h>

#include "poet/crc32.h"

static const char magic[] = "POET SLOT 1\n";

enum { HEADER_BYTES = 40, READS = 3 };

typedef struct slot_header {
    uint32_t sequence;
    uint64_t graph_hash;
    uint32_t step;
    uint32_t bytes;
    uint32_t crc; /* of the tensors' bytes, in order */
} slot_header;

/* --- header --- */

static void store32(uint8_t *place, uint32_t number)
{
    for (uint32_t i = 0; i < 4; i++) {
        place[i] = (uint8_t)(number >> (8u * i));
    }
}

static uint32_t load32(const uint8_t *place)
{
    return (uint32_t)place[0] | (uint32_t)place[1] << 8 | (uint32_t)place[2] << 16 | (uint32_t)place[3] << 24;
}

static void encode(const slot_header *header, uint8_t *bytes)
{
    memcpy(bytes, magic, 12);
    store32(bytes + 12, header->sequence);
    store32(bytes + 16, (uint32_t)header->graph_hash);
    store32(bytes + 20, (uint32_t)(header->graph_hash >> 32));
    store32(bytes + 24, header->step);
    store32(bytes + 28, header->bytes);
    store32(bytes + 32, header->crc);
    store32(bytes + 36, poet_crc32(0, bytes, 36));
}

static bool decode(const uint8_t *bytes, slot_header *header)
{
    header->sequence = load32(bytes + 12);
    header->graph_hash = load32(bytes + 16) | (uint64_t)load32(bytes + 20) << 32;
    header->step = load32(bytes + 24);
    header->bytes = load32(bytes + 28);
    header->crc = load32(bytes + 32);
    return memcmp(bytes, magic, 12) == 0 && load32(bytes + 36) == poet_crc32(0, bytes, 36);
}

static uint32_t slot_block(uint32_t slot)
{
    return POET_SLOT_FIRST_BLOCK + slot * POET_SLOT_BLOCKS;
}

/* Whether a slot has a header. One that was never written has none, nor has one whose header was torn or cannot be
 * read; `status` says what the device said of it at last. */
static bool read_header(const poet_block_device *device, uint32_t slot, slot_header *header, int *status)
{
    uint8_t bytes[HEADER_BYTES];
    for (uint32_t reads = 0; reads < READS; reads++) {
        *status = device->read(device->context, slot_block(slot), bytes, sizeof bytes);
        if (*status == POET_OK && decode(bytes, header)) {
            return true;
        }
    }
    return false;
}

/* --- tensors --- */

static bool is_kept(const poet_resident *resident)
{
    return (resident->kind == POET_RESIDENT_PARAMETER || resident->kind == POET_RESIDENT_STATE) && resident->bytes > 0;
}

static uint32_t blocks_of(uint32_t bytes)
{
    return (bytes - 1u) / POET_BLOCK_BYTES + 1u;
}

/* Size and CRC of what a commit of these tensors holds. POET_E_FULL if no slot can hold it. */
static int measure(const poet_model *model, const uint8_t *residents, slot_header *header)
{
    uint32_t blocks = 1;
    header->bytes = 0;
    header->crc = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (!is_kept(resident)) {
            continue;
        }
        if (blocks_of(resident->bytes) > POET_SLOT_BLOCKS - blocks) {
            return POET_E_FULL;
        }
        blocks += blocks_of(resident->bytes);
        header->bytes += resident->bytes;
        header->crc = poet_crc32(header->crc, residents + resident->offset, resident->bytes);
    }
    return POET_OK;
}

static int write_tensors(const poet_block_device *device, const poet_model *model, const uint8_t *residents,
                         uint32_t block)
{
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (!is_kept(resident)) {
            continue;
        }
        const int status = device->write(device->context, block, residents + resident->offset, resident->bytes);
        if (status != POET_OK) {
            return status;
        }
        block += blocks_of(resident->bytes);
    }
    return device->sync(device->context);
}

/* CRC of a slot's tensors as they are on the card, read through a buffer of one block. */
static int check_once(const poet_block_device *device, const poet_model *model, uint32_t block, uint32_t *crc)
{
    uint8_t buffer[POET_BLOCK_BYTES];
    *crc = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        uint32_t left = is_kept(&model->residents[i]) ? model->residents[i].bytes : 0;
        while (left > 0) {
            const uint32_t bytes = left < sizeof buffer ? left : (uint32_t)sizeof buffer;
            const int status = device->read(device->context, block++, buffer, bytes);
            if (status != POET_OK) {
                return status;
            }
            *crc = poet_crc32(*crc, buffer, bytes);
            left -= bytes;
        }
    }
    return POET_OK;
}

static int check_tensors(const poet_block_device *device, const poet_model *model, uint32_t block, uint32_t expected)
{
    for (uint32_t reads = 0; reads < READS; reads++) {
        uint32_t crc;
        const int status = check_once(device, model, block, &crc);
        if (status != POET_OK || crc == expected) {
            return status;
        }
    }
    return POET_E_CORRUPT;
}

static int read_tensors(const poet_block_device *device, const poet_model *model, uint8_t *residents, uint32_t block)
{
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (!is_kept(resident)) {
            continue;
        }
        const int status = device->read(device->context, block, residents + resident->offset, resident->bytes);
        if (status != POET_OK) {
            return status;
        }
        block += blocks_of(resident->bytes);
    }
    return POET_OK;
}

/* --- commit and restore --- */

int poet_checkpoint_commit(const poet_block_device *device, const poet_model *model, const uint8_t *residents,
                           uint32_t step, uint32_t *bytes)
{
    slot_header next = {.sequence = 1, .graph_hash = model->graph_hash, .step = step};
    uint32_t slot = 0;
    int status = measure(model, residents, &next);
    if (status != POET_OK) {
        return status;
    }
    for (uint32_t i = 0; i < POET_SLOT_COUNT; i++) {
        slot_header header;
        int read;
        if (read_header(device, i, &header, &read) && header.sequence >= next.sequence) {
            next.sequence = header.sequence + 1u;
            slot = POET_SLOT_COUNT - 1u - i;
        }
        if (read != POET_OK) {
            status = read;
        }
    }
    if (next.sequence == 1u && status != POET_OK) {
        return status; /* what cannot be read may be the only commit there is */
    }

    const uint32_t block = slot_block(slot);
    status = write_tensors(device, model, residents, block + 1u);
    if (status == POET_OK) {
        status = check_tensors(device, model, block + 1u, next.crc);
    }
    if (status != POET_OK) {
        return status;
    }
    uint8_t header[HEADER_BYTES];
    encode(&next, header);
    *bytes = next.bytes;
    status = device->write(device->context, block, header, sizeof header);
    return status != POET_OK ? status : device->sync(device->context);
}

/* Restores one slot; its tensors are checked on the card before any is put into RAM, and again in RAM. */
static int restore_slot(const poet_block_device *device, const poet_model *model, uint8_t *residents, uint32_t slot,
                        const slot_header *header)
{
    slot_header now;
    int status = check_tensors(device, model, slot_block(slot) + 1u, header->crc);
    for (uint32_t reads = 0; status == POET_OK && reads < READS; reads++) {
        status = read_tensors(device, model, residents, slot_block(slot) + 1u);
        if (status == POET_OK) {
            status = measure(model, residents, &now);
        }
        if (status == POET_OK && now.crc == header->crc) {
            return POET_OK;
        }
    }
    return status != POET_OK ? status : POET_E_CORRUPT;
}

int poet_checkpoint_restore(const poet_block_device *device, const poet_model *model, uint8_t *residents,
                            uint32_t *step, uint32_t *bytes)
{
    slot_header headers[POET_SLOT_COUNT];
    bool usable[POET_SLOT_COUNT];
    slot_header fitting;
    int status = measure(model, residents, &fitting);
    if (status != POET_OK) {
        return status;
    }

    status = POET_E_ABSENT;
    for (uint32_t i = 0; i < POET_SLOT_COUNT; i++) {
        int read;
        usable[i] = read_header(device, i, &headers[i], &read) && headers[i].graph_hash == model->graph_hash &&
                    headers[i].bytes == fitting.bytes;
        if (read != POET_OK) {
            status = read;
        }
    }
    const uint32_t newest = usable[1] && (!usable[0] || headers[1].sequence > headers[0].sequence) ? 1u : 0u;
    for (uint32_t i = 0; i < POET_SLOT_COUNT; i++) {
        const uint32_t slot = i == 0 ? newest : 1u - newest;
        if (!usable[slot]) {
            continue;
        }
        status = restore_slot(device, model, residents, slot, &headers[slot]);
        if (status == POET_OK) {
            *step = headers[slot].step;
            *bytes = headers[slot].bytes;
            return POET_OK;
        }
    }
    return status;
}
