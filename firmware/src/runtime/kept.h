/* SPDX-License-Identifier: Apache-2.0 */
/* Where kept tensors lie on the card (docs/SPEC.md, section 7), for record.c. */
#ifndef POET_RUNTIME_KEPT_H
#define POET_RUNTIME_KEPT_H

#include "poet/record.h"

/* A block of the card, from one counted as in the model's tables. */
uint32_t poet_kept_block(const poet_model *model, uint32_t block, bool second);

/* Whether a step changes it. */
bool poet_kept_is_unit(const poet_model *model, const poet_kept *kept);

/* One bit for each home, in words. */
bool poet_kept_bit(const uint32_t *words, uint32_t bit);
void poet_kept_set_bits(uint32_t *words, uint32_t first, uint32_t count, bool value);

/* Both: POET_E_CORRUPT if the card holds something else. The second one reads all rows that count. */
int poet_kept_check_place(const poet_block_device *device, const poet_kept_place *place);
int poet_kept_check(const poet_record *record, const poet_kept *kept);

#endif
