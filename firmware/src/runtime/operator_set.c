/* SPDX-License-Identifier: Apache-2.0 */
/* Operators by their codes, and what may be computed in place, from takes_over.def. It names no operator's function, so
 * that a program links those alone which it names itself. */
#include "poet/operator.h"

const poet_operator *poet_operator_find(const poet_operator_set *set, uint8_t code)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->operators[i].code == code) {
            return &set->operators[i];
        }
    }
    return NULL;
}

uint32_t poet_operator_takes_over(uint8_t code)
{
    switch (code) {
#define POET_TAKES_OVER(NAME, inputs) \
    case POET_OP_##NAME:              \
        return inputs;
#include "poet/takes_over.def"
#undef POET_TAKES_OVER
    default:
        return 0;
    }
}
