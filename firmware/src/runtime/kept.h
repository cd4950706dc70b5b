/* SPDX-License-Identifier: Apache-2.0 */
/* Where kept tensors lie on the card (docs/SPEC.md, section 7), for record.c. */
#ifndef POET_RUNTIME_KEPT_H
#define POET_RUNTIME_KEPT_H

#include "poet/record.h"

/* A block of the card, from one counted as in the model's tables. */
uint32_t poet_kept_block(const poet_model *model, uint32_t block, bool second);

/* Whether a step changes it. */
bool poet_kept_is_unit(const poet_model *model, const poet_kept *kept);

/* POET_E_CORRUPT if the card holds something else. */
int poet_kept_check(const poet_block_device *device, const poet_kept_place *place);

#endif
