/* SPDX-License-Identifier: Apache-2.0 */
#include "runner_parts.h"

const uint8_t poet_micro_batches_kernels = 1;

/* What adds up over the micro-batches. */
static bool is_sum(const poet_resident *resident)
{
    return resident->kind == POET_RESIDENT_GRADIENT || resident->kind == POET_RESIDENT_LOSS;
}

/* -0 is what changes no number that is added to it, not even its sign. */
static void begin_sums(const poet_runner *runner)
{
    const poet_model *model = runner->model;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *sum = &model->residents[i];
        float *numbers = (float *)(void *)(runner->ram + sum->offset);
        for (uint32_t j = 0; is_sum(sum) && j < sum->bytes / sizeof *numbers; j++) {
            numbers[j] = -0.0f;
        }
    }
}

/* Each micro-batch draws its own random numbers: `advance` itself waits for the last one. */
static void move_generators(const poet_runner *runner, uint32_t micro_batches)
{
    const poet_schedule *schedule = runner->schedule;
    for (uint32_t i = 0; i < schedule->call_count; i++) {
        const poet_call *call = &schedule->calls[i];
        if (call->op < POET_PAGE_IN && schedule->operators[call->op].code == POET_OP_ADVANCE) {
            const poet_advance_params *p = (const poet_advance_params *)(const void *)(schedule->params + call->params);
            uint32_t *words = (uint32_t *)(void *)(runner->ram + schedule->words[call->words]);
            words[1] += micro_batches * (uint32_t)p->steps;
        }
    }
}

__attribute__((cold)) void poet_micro_batch_begin(const poet_runner *runner)
{
    if (runner->gathered > 0) {
        move_generators(runner, runner->gathered);
    } else if (poet_is_gathering(runner)) {
        begin_sums(runner);
    }
}

/* The loss is looked at in each run, so that a damaged sample is found where it is. */
__attribute__((cold)) int poet_micro_batch_end(poet_runner *runner, int status)
{
    const bool gathers = poet_is_gathering(runner);
    if (status == POET_OK && gathers) {
        status = poet_runner_check_loss(runner);
    }
    if (runner->gathered > 0 && (status != POET_OK || gathers)) {
        move_generators(runner, 0u - runner->gathered);
    }
    runner->gathered = status == POET_OK && gathers ? runner->gathered + 1u : 0u;
    return status == POET_OK && gathers ? POET_GATHERED : status;
}
