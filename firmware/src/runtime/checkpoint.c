/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/checkpoint.h"

#include <stdbool.h>
#include <string.h>

#include "poet/crc32.h"
#include "poet/saved.h"

static const char magic[] = "POET SLOT 1\n";

enum { HEADER_BYTES = 48 };

typedef struct slot_header {
    uint32_t sequence;
    uint64_t graph_hash;
    uint32_t step;
    uint32_t bytes;
    uint32_t crc;   /* of the tensors' bytes, in order */
    uint32_t owner; /* 0: nobody in particular */
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

/* A commit without an owner has no check of it: its header is that of before there were owners. */
static uint32_t owner_check(const uint8_t *bytes, uint32_t owner)
{
    return owner == 0 ? 0u : poet_crc32_quick(0, bytes, 44);
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
    store32(bytes + 36, poet_crc32_quick(0, bytes, 36));
    store32(bytes + 40, header->owner);
    store32(bytes + 44, owner_check(bytes, header->owner));
}

static bool decode(const uint8_t *bytes, slot_header *header)
{
    header->sequence = load32(bytes + 12);
    header->graph_hash = load32(bytes + 16) | (uint64_t)load32(bytes + 20) << 32;
    header->step = load32(bytes + 24);
    header->bytes = load32(bytes + 28);
    header->crc = load32(bytes + 32);
    header->owner = load32(bytes + 40);
    return memcmp(bytes, magic, 12) == 0 && load32(bytes + 36) == poet_crc32_quick(0, bytes, 36) &&
           load32(bytes + 44) == owner_check(bytes, header->owner);
}

static uint32_t slot_block(uint32_t slot)
{
    return POET_SLOT_FIRST_BLOCK + slot * POET_SLOT_BLOCKS;
}

/* Whether a slot has a header. One that was never written has none, nor has one whose header was torn or cannot be
 * read; `status` says what the device said of it at last. */
__attribute__((cold)) static bool read_header(const poet_block_device *device, uint32_t slot, slot_header *header,
                                              int *status)
{
    uint8_t bytes[HEADER_BYTES];
    for (uint32_t reads = 0; reads < POET_SAVED_READS; reads++) {
        *status = device->read(device->context, slot_block(slot), bytes, sizeof bytes);
        if (*status == POET_OK && decode(bytes, header)) {
            return true;
        }
    }
    return false;
}

/* Whether a commit is of this graph, and not of another network that has the same one. */
static bool is_own(const slot_header *header, const poet_model *model, uint32_t owner)
{
    return header->graph_hash == model->graph_hash && (header->owner == owner || header->owner == 0 || owner == 0);
}

/* --- commit and restore --- */

bool poet_checkpoint_is_there(const poet_block_device *device)
{
    slot_header header;
    int status;
    return read_header(device, 0, &header, &status) || read_header(device, 1, &header, &status);
}

__attribute__((cold)) int poet_checkpoint_commit(const poet_block_device *device, const poet_model *model,
                                                 uint32_t owner, const uint8_t *residents, uint32_t step,
                                                 uint32_t *bytes)
{
    slot_header next = {.sequence = 1, .graph_hash = model->graph_hash, .step = step, .owner = owner};
    uint32_t slot = 0;
    int status = POET_OK;
    if (poet_saved_blocks(model) > POET_SLOT_BLOCKS - 1u) {
        return POET_E_FULL;
    }
    status = poet_saved_check_finite(model, residents);
    if (status != POET_OK) {
        return status;
    }
    next.bytes = poet_saved_bytes(model);
    next.crc = poet_saved_crc(model, residents);
    for (uint32_t i = 0; i < POET_SLOT_COUNT; i++) {
        slot_header header;
        int read;
        const bool found = read_header(device, i, &header, &read);
        if (found && !is_own(&header, model, owner)) {
            return POET_E_TAKEN;
        }
        if (found && header.sequence >= next.sequence) {
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
    status = poet_saved_write(device, model, residents, block + 1u);
    if (status == POET_OK) {
        status = poet_saved_check(device, model, block + 1u, next.crc);
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

__attribute__((cold)) int poet_checkpoint_restore(const poet_block_device *device, const poet_model *model,
                                                  uint32_t owner, uint8_t *residents, uint32_t *step, uint32_t *bytes)
{
    slot_header headers[POET_SLOT_COUNT];
    bool usable[POET_SLOT_COUNT];
    if (poet_saved_blocks(model) > POET_SLOT_BLOCKS - 1u) {
        return POET_E_FULL;
    }

    int status = POET_E_ABSENT;
    for (uint32_t i = 0; i < POET_SLOT_COUNT; i++) {
        int read;
        const bool found = read_header(device, i, &headers[i], &read);
        const bool own = found && is_own(&headers[i], model, owner);
        usable[i] = own && headers[i].bytes == poet_saved_bytes(model);
        if (read != POET_OK) {
            status = read;
        } else if (found && !own && status == POET_E_ABSENT) {
            status = POET_E_TAKEN;
        }
    }
    const uint32_t newest = usable[1] && (!usable[0] || headers[1].sequence > headers[0].sequence) ? 1u : 0u;
    for (uint32_t i = 0; i < POET_SLOT_COUNT; i++) {
        const uint32_t slot = i == 0 ? newest : 1u - newest;
        if (!usable[slot]) {
            continue;
        }
        status = poet_saved_read(device, model, residents, slot_block(slot) + 1u, headers[slot].crc);
        if (status == POET_OK) {
            *step = headers[slot].step;
            *bytes = headers[slot].bytes;
            return POET_OK;
        }
    }
    return status;
}
