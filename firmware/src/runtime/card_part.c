/* SPDX-License-Identifier: Apache-2.0 */
#include "card_part.h"

#include "poet/block_device.h"
#include "poet/record.h"

const uint8_t poet_card_part_kernels = 1;

/* Whether a kept tensor lies as an operator reads or writes it: as a whole, or by rows. Rows of a tensor that lies as a
 * whole can be read where each begins a block. */
static bool lies_suitably(const poet_kept *kept, const poet_sizes *sizes, bool input)
{
    if (kept->rows > 1u || !input || sizes->kept_rows <= 1u) {
        return kept->rows == (sizes->kept_rows > 0 ? sizes->kept_rows : 1u);
    }
    return kept->bytes / sizes->kept_rows % POET_BLOCK_BYTES == 0;
}

static bool is_operand_sound(const poet_model *model, const poet_schedule *schedule, const poet_sizes *sizes,
                             uint32_t word, uint32_t place)
{
    const bool input = place < sizes->inputs;
    const uint32_t bytes = poet_operand_bytes(sizes, place);
    if (input ? (sizes->kept & POET_KEPT_INPUT) == 0 ||
                    (place != sizes->kept_input && (sizes->kept_also >> place & 1u) == 0)
              : (sizes->kept & POET_KEPT_OUTPUTS) == 0 || place >= sizes->inputs + sizes->outputs) {
        return poet_lies_inside(model, schedule, word, bytes, !input);
    }
    /* Of an update that reads its states from the card the parameter may lie in RAM. */
    if (sizes->kept_also != 0 && place == (input ? sizes->kept_input : sizes->inputs) && (word & POET_WORD_KEPT) == 0) {
        return poet_lies_inside(model, schedule, word, bytes, !input);
    }
    const uint32_t number = word >> POET_WORD_KEPT_SHIFT;
    if (word % 4u != POET_WORD_KEPT || number >= model->kept_count) {
        return false;
    }
    const poet_kept *kept = &model->kept[number];
    return kept->bytes == bytes && lies_suitably(kept, sizes, input) && (input || kept->check < model->unit_count);
}

static bool is_page_sound(const poet_model *model, const poet_schedule *schedule, const poet_call *call)
{
    const uint32_t *words = schedule->words + call->words;
    if (call->inputs > 0 || call->outputs > 0 || (call->flags & (POET_WORKSPACE | POET_CHANGES)) != 0 ||
        POET_PAGE_WORDS > schedule->word_count - call->words) {
        return false;
    }
    const uint32_t bytes = words[POET_PAGE_BYTES];
    const uint32_t blocks = bytes / POET_BLOCK_BYTES + (bytes % POET_BLOCK_BYTES > 0);
    const bool inside = bytes > 0 && words[POET_PAGE_PLACE] % 4u == 0 &&
                        poet_lies_inside(model, schedule, words[POET_PAGE_PLACE], bytes, true);
    const bool on_card = words[POET_PAGE_NUMBER] < schedule->page_count && blocks <= schedule->page_blocks &&
                         words[POET_PAGE_BLOCK] <= schedule->page_blocks - blocks;
    return inside && on_card;
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

/* Whether it makes features: then it stands beside the step, and changes nothing. */
static bool fills_features(const poet_model *model, const poet_schedule *schedule)
{
    bool fills = false;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        for (uint32_t j = 0; resident->kind == POET_RESIDENT_FEATURE && j < schedule->call_count; j++) {
            const poet_call *call = &schedule->calls[j];
            for (uint32_t output = 0; output < call->outputs; output++) {
                fills = fills || schedule->words[call->words + call->inputs + output] == resident->offset;
            }
        }
    }
    return fills;
}

bool poet_record_may_be_needed(const poet_schedule *schedule)
{
    bool changed = false;
    for (uint32_t i = 0; i < schedule->call_count; i++) {
        const poet_call *call = &schedule->calls[i];
        /* Of an update the first output is the parameter. */
        const bool in_ram = call->outputs == 0 || (schedule->words[call->words + call->inputs] & POET_WORD_KEPT) == 0;
        changed = changed || ((call->flags & POET_CHANGES) != 0 && in_ram);
        if (changed && uses_card(schedule, call)) {
            return true;
        }
    }
    return false;
}

/* A transfer can fail; after the first change of a resident weight there is none, so that a failed step has changed
 * nothing. But with kept tensors there is a record, from which the residents are read back. */
static bool is_order_sound(const poet_model *model, const poet_schedule *schedule)
{
    bool committed = false;
    if (model->kept_count == 0 && poet_record_may_be_needed(schedule)) {
        return false;
    }
    for (uint32_t i = 0; i < schedule->call_count; i++) {
        const poet_call *call = &schedule->calls[i];
        if (committed) {
            return false;
        }
        committed = call->op < POET_PAGE_IN && schedule->operators[call->op].code == POET_OP_COMMIT;
    }
    return committed == (poet_record_ends_steps(model) && !fills_features(model, schedule));
}

static bool keeps_alike(const poet_model *model, const poet_model *training)
{
    return model->kept_count == 0 ||
           (model->kept == training->kept && model->kept_count == training->kept_count &&
            model->unit_count == training->unit_count && model->home_blocks == training->home_blocks &&
            model->commit_each == training->commit_each);
}

static int move_page(const poet_runner *runner, poet_run *run, const poet_call *call)
{
    const uint32_t *words = runner->schedule->words + call->words;
    uint32_t *crc = &runner->pages[words[POET_PAGE_NUMBER]].crc;
    const uint32_t block = run->pager->page_area + words[POET_PAGE_BLOCK];
    void *data = runner->ram + words[POET_PAGE_PLACE];
    if (call->op == POET_PAGE_OUT) {
        run->page_outs++;
        return poet_pager_start_out(run->pager, block, data, words[POET_PAGE_BYTES], crc);
    }
    run->page_ins++;
    return poet_pager_start_in(run->pager, block, data, words[POET_PAGE_BYTES], *crc);
}

const poet_card_part poet_on_card = {
    .kept = poet_record_layout_is_sound,
    .order = is_order_sound,
    .operand = is_operand_sound,
    .page = is_page_sound,
    .alike = keeps_alike,
    .move = move_page,
    .wait = poet_pager_wait,
};
