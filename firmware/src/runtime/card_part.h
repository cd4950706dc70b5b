/* SPDX-License-Identifier: Apache-2.0 */
/* The runner's part for what a plan has on the card. A program whose plans have nothing there links none of it. */
#ifndef POET_RUNTIME_CARD_PART_H
#define POET_RUNTIME_CARD_PART_H

#include <stdbool.h>

#include "poet/model.h"
#include "poet/operator.h"
#include "poet/runner.h"
#include "poet/schedule.h"

typedef struct poet_card_part {
    /* Whether the table of kept tensors is sound, and the calls are in an order in which a transfer may fail. */
    bool (*kept)(const poet_model *model);
    bool (*order)(const poet_model *model, const poet_schedule *schedule);

    /* A word of an operator that has kept tensors: the one at this place of its inputs, outputs and workspace. */
    bool (*operand)(const poet_model *model, const poet_schedule *schedule, const poet_sizes *sizes, uint32_t word,
                    uint32_t place);

    /* Whether a page lies in RAM, and on the card among the others. */
    bool (*page)(const poet_model *model, const poet_schedule *schedule, const poet_call *call);

    /* Whether an inference keeps nothing on the card, or what the training has there, in the same places. */
    bool (*alike)(const poet_model *model, const poet_model *training);

    /* Starts a page's transfer. A device without DMA has completed it by now. */
    int (*move)(const poet_runner *runner, poet_run *run, const poet_call *call);

    /* poet_pager_wait */
    int (*wait)(poet_pager *pager);
} poet_card_part;

/* NULL, its address, in a program without. */
POET_OPTIONAL extern const poet_card_part poet_on_card;

/* Of an input, an output or, after those, the workspace. */
static inline uint32_t poet_operand_bytes(const poet_sizes *sizes, uint32_t place)
{
    return place < sizes->inputs                    ? sizes->input_bytes[place]
           : place < sizes->inputs + sizes->outputs ? sizes->output_bytes[place - sizes->inputs]
                                                    : sizes->workspace_bytes;
}

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
