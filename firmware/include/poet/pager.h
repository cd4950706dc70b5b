/* SPDX-License-Identifier: Apache-2.0 */
/* The pager: tensors to and from the card, each with a check, over any poet_block_device (docs/SPEC.md, section 7).
 *
 *     poet_pager pager;
 *     poet_pager_open(&pager, &card);                    // POET_E_ABSENT: not a card labelled for poet
 *     uint32_t crc;
 *     poet_pager_out(&pager, pager.page_area, activation, 5000, &crc); // the first ten blocks for pages
 *     poet_pager_in(&pager, pager.page_area, activation, 5000, crc);   // POET_E_CORRUPT: other bytes came back
 *
 * Blocks are the card's. The caller keeps the CRC of each page.
 */
#ifndef POET_PAGER_H
#define POET_PAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/block_device.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define POET_CARD_DATA_BLOCK 2048u /* after the label and what is committed */
#define POET_PAGE_READS 3u         /* one, and two more if the check fails */

typedef struct poet_pager {
    const poet_block_device *device;
    uint32_t page_area; /* its first block: POET_CARD_DATA_BLOCK, unless kept tensors lie there; the end of flash */
    bool reading;       /* the transfer under way, if any */
    bool checked;       /* what it reads has a CRC */
    bool busy;
    uint32_t block;
    void *data;
    uint32_t bytes;
    uint32_t crc;
} poet_pager;

/* Whether pages, and all that is written in place, have room behind a card's two slots. Flash has none. */
static inline bool poet_has_pages(const poet_block_device *device)
{
    return device->erase_blocks == 0u && device->block_count > POET_CARD_DATA_BLOCK;
}

/* Writes the label that allows poet to use the card, and ends what was committed there. Whatever was on it may be
 * overwritten from then on. POET_E_FULL if two commits do not fit. */
int poet_pager_format(const poet_block_device *device);

/* POET_E_ABSENT if the card carries no label, POET_E_IO if it does not answer. */
int poet_pager_open(poet_pager *pager, const poet_block_device *device);

/* Page blocks that the card has room for. */
uint32_t poet_pager_blocks(const poet_pager *pager);

/* Both transfer `bytes` (not 0) and return when the transfer is complete. POET_E_FULL where the card ends first. */
int poet_pager_out(poet_pager *pager, uint32_t block, const void *data, uint32_t bytes, uint32_t *crc);
int poet_pager_in(poet_pager *pager, uint32_t block, void *data, uint32_t bytes, uint32_t crc);

/* Reads once and checks nothing, for what carries a check of its own. */
int poet_pager_read(poet_pager *pager, uint32_t block, void *data, uint32_t bytes);

/* Goes on with the check of a page or tensor; of memory there is none, and it stays as it is. */
uint32_t poet_pager_crc(const poet_block_device *device, uint32_t crc, const void *data, uint32_t bytes);

/* As out and in, returning at once where the device can transfer on its own; poet_pager_wait completes the transfer and
 * gives its result. `data` must stay untouched until then. A start waits for the transfer before it; if that one
 * failed, nothing is started and its error returned. */
int poet_pager_start_out(poet_pager *pager, uint32_t block, const void *data, uint32_t bytes, uint32_t *crc);
int poet_pager_start_in(poet_pager *pager, uint32_t block, void *data, uint32_t bytes, uint32_t crc);
int poet_pager_start_unchecked_in(poet_pager *pager, uint32_t block, void *data, uint32_t bytes);
int poet_pager_wait(poet_pager *pager);

#ifdef __cplusplus
}
#endif

#endif
