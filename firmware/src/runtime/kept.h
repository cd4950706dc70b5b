/* SPDX-License-Identifier: Apache-2.0 */
/* Where kept tensors lie on the card (docs/SPEC.md, section 7), for record.c. */
#ifndef POET_RUNTIME_KEPT_H
#define POET_RUNTIME_KEPT_H

#include "poet/record.h"

/* A block of the card, from one counted as in the model's tables. */
uint32_t poet_kept_block(const poet_model *model, uint32_t block, uint32_t home);

/* Whether a step changes it. */
bool poet_kept_is_unit(const poet_model *model, const poet_kept *kept);

/* How many a unit, or a row of one, has: what counts, what was done since if not each step commits, what comes next. */
uint32_t poet_kept_homes(const poet_model *model);

/* Bits in words. */
bool poet_kept_bit(const uint32_t *words, uint32_t bit);
void poet_kept_set_bits(uint32_t *words, uint32_t first, uint32_t count, bool value);

/* The home that is read, or in `counts` that of the record, of the unit or row with a bit; and where its next version
 * goes. */
uint32_t poet_kept_home(const poet_model *model, const uint32_t *homes, uint32_t bit);
uint32_t poet_kept_next_home(const poet_record *record, uint32_t bit);

/* First block of a row, in the home of a unit that is read or in that of its next version. */
uint32_t poet_kept_row_block(const poet_record *record, const poet_kept *kept, uint32_t row, bool next);

/* Lets the next step read all that has changed. */
void poet_kept_move(poet_record *record);

/* Both: POET_E_CORRUPT if the card holds something else. The second one reads all rows that count. */
int poet_kept_check_place(const poet_block_device *device, const poet_kept_place *place);
int poet_kept_check(const poet_record *record, const poet_kept *kept);

#endif
