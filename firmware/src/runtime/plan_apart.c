/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"

#include <stddef.h>

#include "card_part.h"

/* The inputs in whose place the first output may lie: bit i stands for input i. */
static uint32_t taken_over(const poet_operator *operator, const poet_sizes *sizes)
{
    switch (operator->code) {
#define POET_TAKES_OVER(NAME, inputs) \
    case POET_OP_##NAME:              \
        return inputs;
#include "poet/takes_over.def"
#undef POET_TAKES_OVER
    default:
        return sizes->takes_over;
    }
}

/* Whether the operator itself says that what it writes at one place may lie exactly where it reads the input. */
static bool may_share(const poet_operator *operator, const poet_sizes *sizes, uint32_t written, uint32_t input)
{
    if (sizes->in_place) {
        return written - sizes->outputs == input;
    }
    return written == sizes->inputs && (taken_over(operator, sizes) >> input & 1u) != 0;
}

static bool overlap(uint32_t one, uint32_t one_bytes, uint32_t other, uint32_t other_bytes)
{
    return one < other + other_bytes && other < one + one_bytes;
}

static bool lies_apart(const poet_operator *operator, const poet_sizes *sizes, const uint32_t *words, uint32_t count)
{
    const uint32_t elsewhere = POET_WORD_CONSTANT | POET_WORD_KEPT;
    for (uint32_t written = sizes->inputs; written < count; written++) {
        for (uint32_t i = 0; i < written; i++) {
            if (((words[written] | words[i]) & elsewhere) == 0 &&
                overlap(words[written], poet_operand_bytes(sizes, written), words[i], poet_operand_bytes(sizes, i)) &&
                !(words[written] == words[i] && i < sizes->inputs && may_share(operator, sizes, written, i))) {
                return false;
            }
        }
    }
    return true;
}

bool poet_plan_lies_apart(const poet_schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->call_count; i++) {
        const poet_call *call = &schedule->calls[i];
        poet_sizes sizes;
        if (call->op < POET_PAGE_IN &&
            schedule->operators[call->op].sizes(schedule->params + call->params, &sizes) == POET_OK &&
            !lies_apart(&schedule->operators[call->op], &sizes, schedule->words + call->words,
                        (uint32_t)call->inputs + call->outputs + (call->flags & POET_WORKSPACE))) {
            return false;
        }
    }
    return true;
}
