/* SPDX-License-Identifier: Apache-2.0 */
/* Weights on the card that survive a power cut at any moment (docs/SPEC.md, section 7).
 *
 * Slots take turns in a ring: a commit writes the tensors into the slot behind the newest one, reads them back, and
 * only then writes the slot's header, whose sequence number makes it the newest. Until that header is whole, the other
 * slot stays the one that counts. A card has two slots; on flash a commit takes as many units as it needs.
 *
 *     poet_checkpoint_commit(&card, &model, 0, residents, NULL, 12, &bytes);    // after the twelfth training step
 *     poet_checkpoint_restore(&card, &model, 0, residents, NULL, &step, &bytes); // after the next boot: step is 12
 *
 * All slots belong to one network: a commit never overwrites that of another one (POET_E_TAKEN). `owner` tells
 * networks apart that have the same graph; 0 is every one of them.
 *
 * The caller has made sure that the card carries poet's label (poet_pager_open).
 */
#ifndef POET_CHECKPOINT_H
#define POET_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/block_device.h"
#include "poet/model.h"
#include "poet/record.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define POET_SLOT_COUNT 2u
#define POET_SLOT_FIRST_BLOCK 16u
#define POET_SLOT_BLOCKS 1016u /* one for the header; both slots end where the page area begins */

/* Where commits lie on flash, and on what is too small for a card's layout: behind the label's place there are `count`
 * more of `blocks`. Each may begin a commit, which takes as many as it needs. */
typedef struct poet_ring {
    uint32_t first;
    uint32_t blocks;
    uint32_t count;
    uint32_t headers; /* on flash two: the second one is written before anybody relies on the first */
} poet_ring;

poet_ring poet_ring_of(const poet_block_device *device);

/* Whether a slot holds a commit, whosever it is. */
bool poet_checkpoint_is_there(const poet_block_device *device);

/* Commits every parameter and state tensor, with the caller's step number, and the tensors that `kept` counts, a record
 * in memory, or NULL. Commits of memory go to what it has as `lasting`: POET_E_ABSENT if nothing is. POET_E_TAKEN if a
 * slot holds another network's commit, which only poet_pager_format ends; POET_E_FULL if they do not fit a slot,
 * POET_E_NOT_FINITE if a parameter is infinite or no number (nothing is written then), POET_E_CORRUPT if the card does
 * not give back what was written; the last commit then still counts. */
int poet_checkpoint_commit(const poet_block_device *device, const poet_model *model, uint32_t owner,
                           const uint8_t *residents, const poet_record *kept, uint32_t step, uint32_t *bytes);

/* Reads the newest whole commit back. POET_E_ABSENT if there is none, POET_E_TAKEN if there are only those of another
 * network, POET_E_CORRUPT if none passes its check; the tensors in RAM are then unchanged. Those of `kept` become its
 * next versions, which poet_record_take lets count. */
int poet_checkpoint_restore(const poet_block_device *device, const poet_model *model, uint32_t owner,
                            uint8_t *residents, const poet_record *kept, uint32_t *step, uint32_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
