/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/pager.h"

#include <stddef.h>
#include <string.h>

#include "poet/checkpoint.h"
#include "poet/crc32.h"
#include "poet/operator.h"

POET_KERNELS(card_part) /* the runner's, which is weak, and would not come out of an archive by itself */

static const char label[] = "POET CARD 1\n";

uint32_t poet_pager_crc(const poet_block_device *device, uint32_t crc, const void *data, uint32_t bytes)
{
    return device->forgets ? crc : poet_crc32_quick(crc, data, bytes);
}

poet_ring poet_ring_of(const poet_block_device *device)
{
    if (poet_has_pages(device)) {
        return (poet_ring){POET_SLOT_FIRST_BLOCK, POET_SLOT_BLOCKS, POET_SLOT_COUNT, 1u};
    }
    const uint32_t blocks = device->erase_blocks > 1u ? device->erase_blocks : 2u; /* both headers lie in one place */
    const uint32_t places = device->block_count / blocks;
    return (poet_ring){blocks, blocks, places > 0u ? places - 1u : 0u, device->erase_blocks > 0u ? 2u : 1u};
}

int poet_pager_format(const poet_block_device *device)
{
    /* Not zeros: a copy of the card that leaves those out would keep an older commit in their place. */
    static const char nothing[] = "POET EMPTY\n";
    const poet_ring ring = poet_ring_of(device);
    int status = ring.count < POET_SLOT_COUNT ? POET_E_FULL : POET_OK;
    if (status == POET_OK && device->erase_blocks > 0u) {
        status = device->erase(device->context, 0, ring.first + ring.count * ring.blocks); /* the label's unit first */
    }
    for (uint32_t i = 0; status == POET_OK && device->erase_blocks == 0u && i < ring.count; i++) {
        status = device->write(device->context, ring.first + i * ring.blocks, nothing, sizeof nothing - 1u);
    }
    if (status == POET_OK) {
        status = device->write(device->context, 0, label, sizeof label - 1u);
    }
    return status != POET_OK ? status : device->sync(device->context);
}

__attribute__((cold)) int poet_pager_open(poet_pager *pager, const poet_block_device *device)
{
    char found[sizeof label - 1u];
    *pager = (poet_pager){.device = device};
    pager->page_area = device->erase_blocks > 0u ? device->block_count : POET_CARD_DATA_BLOCK;
    const int status = device->read(device->context, 0, found, sizeof found);
    if (status != POET_OK) {
        return status;
    }
    return memcmp(found, label, sizeof found) == 0 ? POET_OK : POET_E_ABSENT;
}

uint32_t poet_pager_blocks(const poet_pager *pager)
{
    const uint32_t blocks = pager->device->block_count;
    return blocks > pager->page_area ? blocks - pager->page_area : 0;
}

/* Whether a transfer lies wholly on the card, and neither on its label nor on what is committed. */
static int check_room(const poet_pager *pager, uint32_t block, uint32_t bytes)
{
    if (bytes == 0 || block < POET_CARD_DATA_BLOCK) {
        return POET_E_ARGUMENT;
    }
    if (!poet_has_pages(pager->device)) {
        return POET_E_FULL;
    }
    const uint32_t needed = (bytes - 1u) / POET_BLOCK_BYTES + 1u;
    const uint32_t blocks = pager->device->block_count;
    return needed <= blocks && block <= blocks - needed ? POET_OK : POET_E_FULL;
}

/* Reads a page until its check passes; `arrived` says that the device has just read it once. */
static int read_checked(poet_pager *pager, bool arrived)
{
    const poet_block_device *device = pager->device;
    for (uint32_t reads = 0; reads < POET_PAGE_READS; reads++) {
        if (reads > 0 || !arrived) {
            const int status = device->read(device->context, pager->block, pager->data, pager->bytes);
            if (status != POET_OK) {
                return status;
            }
        }
        if (!pager->checked || poet_pager_crc(device, 0, pager->data, pager->bytes) == pager->crc) {
            return POET_OK;
        }
    }
    return POET_E_CORRUPT;
}

int poet_pager_wait(poet_pager *pager)
{
    if (!pager->busy) {
        return POET_OK;
    }
    pager->busy = false;
    const int status = pager->device->wait(pager->device->context);
    if (status != POET_OK || !pager->reading) {
        return status;
    }
    return read_checked(pager, true);
}

__attribute__((cold)) int poet_pager_start_out(poet_pager *pager, uint32_t block, const void *data, uint32_t bytes,
                                               uint32_t *crc)
{
    const poet_block_device *device = pager->device;
    int status = poet_pager_wait(pager);
    if (status == POET_OK) {
        status = check_room(pager, block, bytes);
    }
    if (status != POET_OK) {
        return status;
    }
    *crc = poet_pager_crc(device, 0, data, bytes);
    if (device->start_write == NULL) {
        return device->write(device->context, block, data, bytes);
    }
    status = device->start_write(device->context, block, data, bytes);
    pager->busy = status == POET_OK;
    pager->reading = false;
    return status;
}

/* Starts a read whose check, if it has one, the pager knows. */
static int start_read(poet_pager *pager, uint32_t block, void *data, uint32_t bytes)
{
    const poet_block_device *device = pager->device;
    int status = poet_pager_wait(pager);
    if (status == POET_OK) {
        status = check_room(pager, block, bytes);
    }
    if (status != POET_OK) {
        return status;
    }
    pager->block = block;
    pager->data = data;
    pager->bytes = bytes;
    if (device->start_read == NULL) {
        return read_checked(pager, false);
    }
    status = device->start_read(device->context, block, data, bytes);
    pager->busy = status == POET_OK;
    pager->reading = true;
    return status;
}

int poet_pager_read(poet_pager *pager, uint32_t block, void *data, uint32_t bytes)
{
    int status = poet_pager_wait(pager);
    if (status == POET_OK) {
        status = check_room(pager, block, bytes);
    }
    return status != POET_OK ? status : pager->device->read(pager->device->context, block, data, bytes);
}

__attribute__((cold)) int poet_pager_start_in(poet_pager *pager, uint32_t block, void *data, uint32_t bytes,
                                              uint32_t crc)
{
    const int status = poet_pager_wait(pager);
    pager->checked = true;
    pager->crc = crc;
    return status != POET_OK ? status : start_read(pager, block, data, bytes);
}

__attribute__((cold)) int poet_pager_start_unchecked_in(poet_pager *pager, uint32_t block, void *data, uint32_t bytes)
{
    const int status = poet_pager_wait(pager);
    pager->checked = false;
    return status != POET_OK ? status : start_read(pager, block, data, bytes);
}

int poet_pager_out(poet_pager *pager, uint32_t block, const void *data, uint32_t bytes, uint32_t *crc)
{
    const int status = poet_pager_start_out(pager, block, data, bytes, crc);
    return status != POET_OK ? status : poet_pager_wait(pager);
}

int poet_pager_in(poet_pager *pager, uint32_t block, void *data, uint32_t bytes, uint32_t crc)
{
    const int status = poet_pager_start_in(pager, block, data, bytes, crc);
    return status != POET_OK ? status : poet_pager_wait(pager);
}
