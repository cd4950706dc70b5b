/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of what a plan has on the card. A program whose plans have nothing there links none of them. */
#ifndef POET_RUNTIME_CARD_CHECK_H
#define POET_RUNTIME_CARD_CHECK_H

#include <stdbool.h>

#include "poet/model.h"
#include "poet/operator.h"
#include "poet/schedule.h"

typedef struct poet_card_check {
    /* The table of kept tensors. */
    bool (*kept)(const poet_model *model);
    /* A word that is to be a kept tensor. */
    bool (*operand)(const poet_model *model, const poet_sizes *sizes, uint32_t word, uint32_t bytes, bool input);
    /* Whether a page lies in RAM, and on the card among the others. */
    int (*page)(const poet_model *model, const poet_schedule *schedule, const poet_call *call);
} poet_card_check;

POET_OPTIONAL extern const poet_card_check poet_card_checks;

/* Whether an operand lies whole in RAM or, only read, in the constants. */
static inline bool poet_lies_inside(const poet_model *model, const poet_schedule *schedule, uint32_t word,
                                    uint32_t bytes, bool written)
{
    const bool constant = (word & POET_WORD_CONSTANT) != 0;
    const uint32_t end = constant ? model->constant_bytes : schedule->ram_bytes;
    const uint32_t offset = word & ~(uint32_t)POET_WORD_CONSTANT;
    return !(constant && written) && offset % 4u == 0 && bytes <= end && offset <= end - bytes;
}

#endif
