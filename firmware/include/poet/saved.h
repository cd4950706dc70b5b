/* SPDX-License-Identifier: Apache-2.0 */
/* What a commit has, as it lies on the card: the residents that outlive a step (parameters and states) in the model's
 * order, each from a block's start; then, where `kept` is not NULL, the rows of all tensors of this record in memory
 * that forgets, but of no batch. Their CRC-32 is that of their bytes one after another. */
#ifndef POET_SAVED_H
#define POET_SAVED_H

#include <stdint.h>

#include "poet/block_device.h"
#include "poet/model.h"
#include "poet/record.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define POET_SAVED_READS 3u /* one, and two more if the check fails */

uint32_t poet_blocks_of(uint32_t bytes);

/* Bytes of the residents; blocks that all takes. */
uint32_t poet_saved_bytes(const poet_model *model);
uint32_t poet_saved_blocks(const poet_model *model, const poet_record *kept);

uint32_t poet_saved_crc(const poet_model *model, const uint8_t *residents, const poet_record *kept);

/* POET_E_NOT_FINITE if a parameter is infinite or no number. States are left out: a counter or a generator is bits, and
 * what spoils the others spoils the parameters. */
int poet_saved_check_finite(const poet_model *model, const uint8_t *residents);

/* Writes them, and returns when the card has them for good. */
int poet_saved_write(const poet_block_device *device, const poet_model *model, const uint8_t *residents,
                     const poet_record *kept, uint32_t block);

/* Reads them without keeping them. POET_E_CORRUPT if the card gives back something else. */
int poet_saved_check(const poet_block_device *device, const poet_model *model, const poet_record *kept, uint32_t block,
                     uint32_t crc);

/* Checks them on the card, and then reads them into RAM, where they are checked again; those of a record as its next
 * versions. */
int poet_saved_read(const poet_block_device *device, const poet_model *model, uint8_t *residents,
                    const poet_record *kept, uint32_t block, uint32_t crc);

#ifdef __cplusplus
}
#endif

#endif
