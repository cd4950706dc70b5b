/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>
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

static uint32_t slot_block(const poet_ring *ring, uint32_t slot)
{
    return ring->first + slot * ring->blocks;
}

/* Whether two commits of so many blocks fit: one of them is always whole. */
static bool has_room(const poet_ring *ring, uint32_t blocks)
{
    const uint32_t half = ring->count / 2u * ring->blocks;
    return half > ring->headers && blocks <= half - ring->headers;
}

/* Whether a slot has a header. One that was never written has none, nor has one whose header was torn or cannot be
 * read; `status` says what the device said of it at last. */
__attribute__((cold)) static bool read_header(const poet_block_device *device, const poet_ring *ring, uint32_t slot,
                                              slot_header *header, int *status)
{
    uint8_t bytes[HEADER_BYTES];
    for (uint32_t reads = 0; reads < POET_SAVED_READS * ring->headers; reads++) {
        const uint32_t block = slot_block(ring, slot) + reads % ring->headers;
        *status = device->read(device->context, block, bytes, sizeof bytes);
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

/* What the headers of all slots say. */
typedef struct found {
    slot_header
        newest; /* of one's own, below the sequence number that was asked for; its sequence is 0: there is none */
    uint32_t slot;
    bool others; /* another network's */
    int status;  /* an error of the device */
} found;

__attribute__((cold)) static found find(const poet_block_device *device, const poet_model *model, uint32_t owner,
                                        uint32_t below)
{
    const poet_ring ring = poet_ring_of(device);
    found all = {.status = POET_OK};
    for (uint32_t slot = 0; slot < ring.count; slot++) {
        slot_header header;
        int read;
        if (read_header(device, &ring, slot, &header, &read)) {
            const bool own = is_own(&header, model, owner);
            all.others = all.others || !own;
            if (own && header.sequence < below && header.sequence >= all.newest.sequence) {
                all.newest = header;
                all.slot = slot;
            }
        }
        all.status = read != POET_OK ? read : all.status;
    }
    return all;
}

/* A header of flash whose programming was cut may read right now and wrong later: it is committed again, in the second
 * place, before anybody relies on it and before the commit beside it is given up. */
__attribute__((cold)) static int confirm(const poet_block_device *device, const poet_ring *ring, const found *all)
{
    uint8_t bytes[HEADER_BYTES];
    const uint32_t block = slot_block(ring, all->slot) + 1u;
    int status = ring->headers < 2u ? POET_OK : device->read(device->context, block, bytes, sizeof bytes);
    bool blank = ring->headers == 2u && all->newest.sequence > 0u && status == POET_OK;
    for (uint32_t i = 0; i < sizeof bytes && blank; i++) {
        blank = bytes[i] == 0xFFu;
    }
    if (blank) {
        encode(&all->newest, bytes);
        status = device->write(device->context, block, bytes, sizeof bytes);
        status = status != POET_OK ? status : device->sync(device->context);
    }
    return status;
}

/* --- commit and restore --- */

bool poet_checkpoint_is_there(const poet_block_device *device)
{
    const poet_ring ring = poet_ring_of(device);
    slot_header header;
    int status;
    bool there = false;
    for (uint32_t slot = 0; slot < ring.count && !there; slot++) {
        there = read_header(device, &ring, slot, &header, &status);
    }
    return there;
}

__attribute__((cold)) int poet_checkpoint_commit(const poet_block_device *device, const poet_model *model,
                                                 uint32_t owner, const uint8_t *residents, const poet_record *kept,
                                                 uint32_t step, uint32_t *bytes)
{
    device = device->forgets ? device->lasting : device;
    if (device == NULL) {
        return POET_E_ABSENT;
    }
    const poet_ring ring = poet_ring_of(device);
    const uint32_t blocks = poet_saved_blocks(model, kept);
    if (!has_room(&ring, blocks)) {
        return POET_E_FULL;
    }
    int status = poet_saved_check_finite(model, residents);
    if (status != POET_OK) {
        return status;
    }
    const found all = find(device, model, owner, UINT32_MAX);
    if (all.others) {
        return POET_E_TAKEN;
    }
    if (all.newest.sequence == 0u && all.status != POET_OK) {
        return all.status; /* what cannot be read may be the only commit there is */
    }
    const slot_header next = {all.newest.sequence + 1u,
                              model->graph_hash,
                              step,
                              kept == NULL ? poet_saved_bytes(model) : poet_record_bytes(kept),
                              poet_saved_crc(model, residents, kept),
                              owner};

    const uint32_t slots = (blocks + ring.headers - 1u) / ring.blocks + 1u;
    const uint32_t behind = all.newest.sequence == 0u ? 0u : all.slot + slots;
    const uint32_t block = slot_block(&ring, behind + slots <= ring.count ? behind : 0u);
    const uint32_t data = block + ring.headers;
    status = confirm(device, &ring, &all);
    if (status == POET_OK && device->erase_blocks > 0u) {
        /* Always: where an erase was cut, it may read as erased and not hold. */
        status = device->erase(device->context, block, slots * ring.blocks);
    }
    if (status == POET_OK) {
        status = poet_saved_write(device, model, residents, kept, data);
    }
    if (status == POET_OK) {
        status = poet_saved_check(device, model, kept, data, next.crc);
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
                                                  uint32_t owner, uint8_t *residents, const poet_record *kept,
                                                  uint32_t *step, uint32_t *bytes)
{
    device = device->forgets ? device->lasting : device;
    if (device == NULL) {
        return POET_E_ABSENT;
    }
    const poet_ring ring = poet_ring_of(device);
    if (!has_room(&ring, poet_saved_blocks(model, kept))) {
        return POET_E_FULL;
    }
    const uint32_t saved = kept == NULL ? poet_saved_bytes(model) : poet_record_bytes(kept);
    found all = find(device, model, owner, UINT32_MAX);
    int status = all.status != POET_OK ? all.status : all.others ? POET_E_TAKEN : POET_E_ABSENT;
    for (; all.newest.sequence > 0u; all = find(device, model, owner, all.newest.sequence)) {
        if (all.newest.bytes != saved) {
            continue;
        }
        const uint32_t data = slot_block(&ring, all.slot) + ring.headers;
        status = poet_saved_read(device, model, residents, kept, data, all.newest.crc);
        if (status == POET_OK) {
            *step = all.newest.step;
            *bytes = all.newest.bytes;
            (void)confirm(device, &ring, &all); /* a commit will say so, if it cannot be */
            return POET_OK;
        }
    }
    return status;
}
