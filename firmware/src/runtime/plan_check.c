/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"

#include <stdbool.h>
#include <stddef.h>

#include "poet/crc32.h"
#include "poet/record.h"

#include "card_check.h"
#include "micro_batches.h"

static bool is_sound(const poet_model *model, const poet_schedule *schedule, const poet_sizes *sizes, uint32_t word,
                     uint32_t place)
{
    const bool input = place < sizes->inputs;
    const bool kept = input ? (sizes->kept & POET_KEPT_INPUT) != 0 && place == sizes->kept_input
                            : place < sizes->inputs + sizes->outputs && (sizes->kept & POET_KEPT_OUTPUTS) != 0;
    const uint32_t bytes = input                                    ? sizes->input_bytes[place]
                           : place < sizes->inputs + sizes->outputs ? sizes->output_bytes[place - sizes->inputs]
                                                                    : sizes->workspace_bytes;
    return kept ? poet_card_checks.operand(model, sizes, word, bytes, input)
                : poet_lies_inside(model, schedule, word, bytes, !input);
}

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
        return poet_card_checks.page(model, schedule, call);
    }
    if (call->op >= schedule->operator_count ||
        schedule->operators[call->op].param_count > schedule->param_count - call->params) {
        return POET_E_CORRUPT;
    }
    poet_sizes sizes;
    const int status = schedule->operators[call->op].sizes(schedule->params + call->params, &sizes);
    if (status != POET_OK) {
        return status == POET_E_UNSUPPORTED ? status : POET_E_CORRUPT;
    }
    if (sizes.inputs != call->inputs || sizes.outputs != call->outputs || (sizes.workspace_bytes > 0 && !workspace)) {
        return POET_E_CORRUPT;
    }
    for (uint32_t i = 0; i < words; i++) {
        if (!is_sound(model, schedule, &sizes, schedule->words[call->words + i], i)) {
            return POET_E_CORRUPT;
        }
    }
    return POET_OK;
}

static bool keeps_soundly(const poet_model *model)
{
    if (model->kept_count == 0) {
        return model->unit_count == 0 && model->check_count == 0 && model->bit_count == 0;
    }
    return poet_card_checks.kept(model);
}

/* Whether the program has the parts of the runner that a plan needs. */
static bool is_supported(const poet_model *model, const poet_schedule *schedule)
{
    bool card = model->kept_count > 0;
    for (uint32_t i = 0; i < schedule->call_count; i++) {
        card = card || schedule->calls[i].op >= POET_PAGE_IN;
    }
    return !(card && &poet_card_checks == NULL) && !(model->micro_batches > 1u && poet_micro_batch_begin == NULL);
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
    if (poet_crc32(0, model->constant_words, model->constant_bytes) != model->constant_crc || !keeps_soundly(model)) {
        return POET_E_CORRUPT;
    }
    /* The next version of a kept tensor would be that of one micro-batch. */
    return model->micro_batches == 1u || (model->micro_batches > 1u && model->kept_count == 0) ? POET_OK
                                                                                               : POET_E_CORRUPT;
}

static bool uses_card(const poet_schedule *schedule, const poet_call *call)
{
    const uint32_t operands = (uint32_t)call->inputs + call->outputs;
    for (uint32_t i = 0; i < operands; i++) {
        if ((schedule->words[call->words + i] & POET_WORD_KEPT) != 0) {
            return true;
        }
    }
    return call->op >= POET_PAGE_IN;
}

/* A transfer can fail; after the first change of a resident weight there is none, so that a failed step has changed
 * nothing. But a step that changes kept tensors ends with a commit, after whose failure the residents are read back. */
__attribute__((cold)) static int check_order(const poet_model *model, const poet_schedule *schedule)
{
    bool changed = false;
    bool committed = false;
    for (uint32_t i = 0; i < schedule->call_count; i++) {
        const poet_call *call = &schedule->calls[i];
        if (committed || (changed && uses_card(schedule, call))) {
            return POET_E_ORDER;
        }
        changed = changed || (call->flags & POET_CHANGES) != 0;
        committed = call->op < POET_PAGE_IN && schedule->operators[call->op].code == POET_OP_COMMIT;
    }
    return committed == poet_record_ends_steps(model) ? POET_OK : POET_E_ORDER;
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
    if (!is_supported(model, schedule)) {
        return POET_E_UNSUPPORTED;
    }
    int status = check_model(model);
    for (uint32_t i = 0; status == POET_OK && i < schedule->call_count; i++) {
        status = check_call(model, schedule, &schedule->calls[i]);
    }
    if (status == POET_OK) {
        status = check_order(model, schedule);
    }
    return status == POET_OK && schedule->ram_bytes > ram_bytes ? POET_E_MEMORY : status;
}
