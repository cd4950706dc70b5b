/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"

#include <stdbool.h>
#include <stddef.h>

#include "poet/crc32.h"
#include "poet/record.h"

/* Whether an operand lies whole in RAM or, only read, in the constants. */
static bool lies_inside(const poet_model *model, const poet_schedule *schedule, uint32_t word, uint32_t bytes,
                        bool written)
{
    const bool constant = (word & POET_WORD_CONSTANT) != 0;
    const uint32_t end = constant ? model->constant_bytes : schedule->ram_bytes;
    const uint32_t offset = word & ~(uint32_t)POET_WORD_CONSTANT;
    return !(constant && written) && offset % 4u == 0 && bytes <= end && offset <= end - bytes;
}

/* Whether a kept tensor lies as an operator reads or writes it: as a whole, or by rows. Rows of a tensor that lies as a
 * whole can be read where each begins a block. */
static bool lies_suitably(const poet_kept *kept, const poet_sizes *sizes, bool input)
{
    if (kept->rows > 1u || !input || sizes->kept_rows <= 1u) {
        return kept->rows == (sizes->kept_rows > 0 ? sizes->kept_rows : 1u);
    }
    return kept->bytes / sizes->kept_rows % POET_BLOCK_BYTES == 0;
}

static bool is_kept_soundly(const poet_model *model, const poet_sizes *sizes, uint32_t word, uint32_t bytes, bool input)
{
    const uint32_t number = word >> POET_WORD_KEPT_SHIFT;
    if (word % 4u != POET_WORD_KEPT || number >= model->kept_count) {
        return false;
    }
    const poet_kept *kept = &model->kept[number];
    return kept->bytes == bytes && lies_suitably(kept, sizes, input) && (input || kept->check < model->unit_count);
}

static bool is_sound(const poet_model *model, const poet_schedule *schedule, const poet_sizes *sizes, uint32_t word,
                     uint32_t place)
{
    const bool input = place < sizes->inputs;
    const bool kept = input ? (sizes->kept & POET_KEPT_INPUT) != 0 && place == sizes->kept_input
                            : place < sizes->inputs + sizes->outputs && (sizes->kept & POET_KEPT_OUTPUTS) != 0;
    const uint32_t bytes = input                                    ? sizes->input_bytes[place]
                           : place < sizes->inputs + sizes->outputs ? sizes->output_bytes[place - sizes->inputs]
                                                                    : sizes->workspace_bytes;
    return kept ? is_kept_soundly(model, sizes, word, bytes, input) : lies_inside(model, schedule, word, bytes, !input);
}

/* Whether a page lies in RAM, and on the card among the others. */
static int check_page(const poet_model *model, const poet_schedule *schedule, const poet_call *call)
{
    const uint32_t *words = schedule->words + call->words;
    if (call->inputs > 0 || call->outputs > 0 || (call->flags & (POET_WORKSPACE | POET_CHANGES)) != 0 ||
        POET_PAGE_WORDS > schedule->word_count - call->words) {
        return POET_E_CORRUPT;
    }
    const uint32_t bytes = words[POET_PAGE_BYTES];
    const uint32_t blocks = bytes / POET_BLOCK_BYTES + (bytes % POET_BLOCK_BYTES > 0);
    const bool inside = bytes > 0 && words[POET_PAGE_PLACE] % 4u == 0 &&
                        lies_inside(model, schedule, words[POET_PAGE_PLACE], bytes, true);
    const bool on_card = words[POET_PAGE_NUMBER] < schedule->page_count && blocks <= schedule->page_blocks &&
                         words[POET_PAGE_BLOCK] <= schedule->page_blocks - blocks;
    return inside && on_card ? POET_OK : POET_E_CORRUPT;
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
        return check_page(model, schedule, call);
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

__attribute__((cold)) static int check_model(const poet_model *model)
{
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (resident->offset % 4u != 0 || resident->bytes > model->resident_bytes ||
            resident->offset > model->resident_bytes - resident->bytes) {
            return POET_E_CORRUPT;
        }
    }
    if (poet_crc32(0, model->constant_words, model->constant_bytes) != model->constant_crc ||
        !poet_record_layout_is_sound(model)) {
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
    int status = check_model(model);
    for (uint32_t i = 0; status == POET_OK && i < schedule->call_count; i++) {
        status = check_call(model, schedule, &schedule->calls[i]);
    }
    if (status == POET_OK) {
        status = check_order(model, schedule);
    }
    return status == POET_OK && schedule->ram_bytes > ram_bytes ? POET_E_MEMORY : status;
}
