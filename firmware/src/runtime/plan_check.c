/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"

#include <stdbool.h>
#include <stddef.h>

#include "poet/crc32.h"

#include "card_part.h"
#include "runner_parts.h"

__attribute__((cold)) static int check_call(const poet_model *model, const poet_schedule *schedule,
                                            const poet_call *call)
{
    const bool workspace = (call->flags & POET_WORKSPACE) != 0;
    const uint32_t words = (uint32_t)call->inputs + call->outputs + workspace;
    if (call->inputs > POET_MAX_INPUTS || call->outputs > POET_MAX_OUTPUTS || call->words > schedule->word_count ||
        words > (uint32_t)schedule->word_count - call->words || call->params > schedule->param_count) {
        return POET_E_CORRUPT;
    }
    if (call->op >= POET_PAGE_IN) {
        if (&poet_on_card == NULL) {
            return POET_E_UNSUPPORTED;
        }
        return poet_on_card.page(model, schedule, call) ? POET_OK : POET_E_CORRUPT;
    }
    const int32_t *params = schedule->params + call->params;
    const int32_t left = schedule->param_count - call->params;
    const poet_operator *operator = &schedule->operators[call->op];
    if (call->op >= schedule->operator_count || operator->param_count > left ||
        poet_operator_params(operator, params) > left) {
        return POET_E_CORRUPT;
    }
    poet_sizes sizes;
    const int status = operator->sizes(params, &sizes);
    if (status != POET_OK) {
        return status == POET_E_UNSUPPORTED ? status : POET_E_CORRUPT;
    }
    if (sizes.inputs != call->inputs || sizes.outputs != call->outputs || (sizes.workspace_bytes > 0 && !workspace)) {
        return POET_E_CORRUPT;
    }
    if (sizes.kept != POET_KEPT_NONE && &poet_on_card == NULL) {
        return POET_E_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < words; i++) {
        const uint32_t word = schedule->words[call->words + i];
        const bool sound =
            sizes.kept == POET_KEPT_NONE
                ? poet_lies_inside(model, schedule, word, poet_operand_bytes(&sizes, i), i >= sizes.inputs)
                : poet_on_card.operand(model, schedule, &sizes, word, i);
        if (!sound) {
            return POET_E_CORRUPT;
        }
    }
    return POET_OK;
}

/* Whether the program has the parts of the runner that a model needs. */
static bool is_supported(const poet_model *model)
{
    return !(model->kept_count > 0 && &poet_on_card == NULL) &&
           !(model->micro_batches > 1u && poet_micro_batch_begin == NULL);
}

__attribute__((cold)) static int check_model(const poet_model *model)
{
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (resident->offset % 4u != 0 || resident->bytes > model->resident_bytes ||
            resident->offset > model->resident_bytes - resident->bytes) {
            return POET_E_CORRUPT;
        }
    }
    const bool keeps_soundly = model->kept_count > 0
                                   ? poet_on_card.kept(model)
                                   : model->unit_count == 0 && model->check_count == 0 && model->bit_count == 0;
    if (poet_crc32(0, model->constant_words, model->constant_bytes) != model->constant_crc || !keeps_soundly) {
        return POET_E_CORRUPT;
    }
    return model->micro_batches > 0 ? POET_OK : POET_E_CORRUPT;
}

static bool is_whole(const poet_schedule *schedule)
{
    uint32_t crc = poet_crc32(0, schedule->calls, schedule->call_count * (uint32_t)sizeof *schedule->calls);
    crc = poet_crc32(crc, schedule->words, schedule->word_count * (uint32_t)sizeof *schedule->words);
    crc = poet_crc32(crc, schedule->params, schedule->param_count * (uint32_t)sizeof *schedule->params);
    return crc == schedule->crc;
}

__attribute__((cold)) int poet_plan_check(const poet_model *model, const poet_schedule *schedule, uint32_t ram_bytes)
{
    if (schedule->graph_hash != model->graph_hash) {
        return POET_E_HASH;
    }
    if (!is_whole(schedule) || model->resident_bytes > schedule->ram_bytes) {
        return POET_E_CORRUPT;
    }
    if (!is_supported(model)) {
        return POET_E_UNSUPPORTED;
    }
    int status = check_model(model);
    for (uint32_t i = 0; status == POET_OK && i < schedule->call_count; i++) {
        status = check_call(model, schedule, &schedule->calls[i]);
    }
    if (status == POET_OK && &poet_on_card != NULL && !poet_on_card.order(model, schedule)) {
        return POET_E_ORDER;
    }
    return status == POET_OK && schedule->ram_bytes > ram_bytes ? POET_E_MEMORY : status;
}
