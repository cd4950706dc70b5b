/* SPDX-License-Identifier: Apache-2.0 */
/* The operator table, built from operators.def, and what may be computed in place, from takes_over.def. */
#include "poet/operator.h"

const poet_operator poet_operators[] = {
#define POET_OPERATOR(code, NAME, name, ...) \
    {#name, code, sizeof(poet_##name##_params) / sizeof(int32_t), poet_##name##_sizes, poet_##name##_run},
#include "poet/operators.def"
#undef POET_OPERATOR
};

const size_t poet_operator_count = sizeof poet_operators / sizeof *poet_operators;

const poet_operator *poet_operator_find(uint8_t code)
{
    for (size_t i = 0; i < poet_operator_count; i++) {
        if (poet_operators[i].code == code) {
            return &poet_operators[i];
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
