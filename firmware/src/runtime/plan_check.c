/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"

#include <stddef.h>

#include "operands.h"
#include "poet/crc32.h"
#include "poet/operator.h"
#include "poet/record.h"

static uint32_t produced_values(const poet_model *model, const poet_node *node)
{
    const uint16_t *outputs = model->operands + node->operands + node->input_count;
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        count += outputs[i] < model->value_count;
    }
    return count;
}

/* What the runner does itself, between a value and a kept tensor. */
static bool is_transfer(const poet_node *node)
{
    return node->op == POET_OP_FETCH || node->op == POET_OP_STORE;
}

static poet_uses uses_of(const poet_node *node, const poet_sizes *sizes)
{
    if (is_transfer(node)) {
        return POET_USES_BUS;
    }
    return sizes->kept != POET_KEPT_NONE || node->op == POET_OP_COMMIT ? POET_USES_BOTH : POET_USES_CPU;
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

/* Whether an operand is of a kind that the operator takes there, and large enough. Flash is only read. */
static bool is_sound(const poet_model *model, const poet_node *node, const poet_sizes *sizes, uint32_t place)
{
    const bool input = place < sizes->inputs;
    const uint16_t reference = model->operands[node->operands + place];
    const uint32_t needed = input ? sizes->input_bytes[place] : sizes->output_bytes[place - sizes->inputs];
    if (input ? (sizes->kept & POET_KEPT_INPUT) != 0 && place == sizes->kept_input
              : (sizes->kept & POET_KEPT_OUTPUTS) != 0) {
        return is_kept(model, reference) && reference < constants_end(model) + model->kept_count &&
               kept_of(model, reference)->bytes == needed && lies_suitably(kept_of(model, reference), sizes, input) &&
               (input || kept_of(model, reference)->check < model->unit_count);
    }
    const uint32_t end = is_transfer(node) ? model->value_count : input ? constants_end(model) : residents_end(model);
    return reference < end && operand_bytes(model, reference) >= needed;
}

__attribute__((cold)) static int check_node(const poet_model *model, const poet_node *node,
                                            const poet_operator_set *operators)
{
    if (node->op == 0) {
        const bool empty = node->input_count == 0 && node->output_count == 0 && node->workspace_bytes == 0;
        return empty && node->uses == POET_USES_CPU ? POET_OK : POET_E_CORRUPT;
    }
    const poet_operator *operator = poet_operator_find(operators, node->op);
    if (operator == NULL) {
        return POET_E_UNSUPPORTED;
    }
    const uint32_t operands = (uint32_t)node->input_count + node->output_count;
    if (node->input_count > POET_MAX_INPUTS || node->output_count > POET_MAX_OUTPUTS ||
        node->operands > model->operand_count || operands > (uint32_t)model->operand_count - node->operands ||
        node->params > model->param_count || operator->param_count > model->param_count - node->params) {
        return POET_E_CORRUPT;
    }

    poet_sizes sizes;
    const int status = operator->sizes(model->params + node->params, &sizes);
    if (status != POET_OK) {
        return status == POET_E_UNSUPPORTED ? status : POET_E_CORRUPT;
    }
    if (sizes.inputs != node->input_count || sizes.outputs != node->output_count ||
        sizes.workspace_bytes > node->workspace_bytes || node->uses != uses_of(node, &sizes) ||
        (is_transfer(node) && node->workspace_bytes > 0)) {
        return POET_E_CORRUPT;
    }
    for (uint32_t i = 0; i < operands; i++) {
        if (!is_sound(model, node, &sizes, i)) {
            return POET_E_CORRUPT;
        }
    }
    const uint16_t *outputs = model->operands + node->operands + node->input_count;
    for (uint32_t i = 0; sizes.in_place && i < sizes.outputs; i++) {
        if (outputs[i] != *(outputs - sizes.outputs + i) || !is_resident(model, outputs[i])) {
            return POET_E_CORRUPT; /* only residents are changed where they lie, each its own input */
        }
    }
    return POET_OK;
}

/* Whether a node leaves the sums of the micro-batches alone, or adds to one. */
static bool sums_up(const poet_model *model, const poet_node *node)
{
    const uint16_t *operands = model->operands + node->operands;
    const uint16_t *outputs = operands + node->input_count;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const bool sum = is_resident(model, outputs[i]) && is_sum(&model->residents[outputs[i] - model->value_count]);
        if (sum && (node->op != POET_OP_ADD || (operands[0] != outputs[i] && operands[1] != outputs[i]))) {
            return false;
        }
    }
    return true;
}

/* The next version of a kept tensor would be that of one micro-batch. */
__attribute__((cold)) static int check_micro_batches(const poet_model *model)
{
    if (model->micro_batches <= 1u) {
        return model->micro_batches == 1u ? POET_OK : POET_E_CORRUPT;
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        if (!sums_up(model, &model->nodes[i])) {
            return POET_E_CORRUPT;
        }
    }
    return model->kept_count == 0 ? POET_OK : POET_E_CORRUPT;
}

__attribute__((cold)) static int check_model(const poet_model *model, uint32_t page_count,
                                             const poet_operator_set *operators)
{
    for (uint32_t i = 0; i < model->value_count; i++) {
        if (model->values[i].page != POET_NO_PAGE && model->values[i].page >= page_count) {
            return POET_E_CORRUPT;
        }
    }
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (resident->offset % 4u != 0 || resident->bytes > model->resident_bytes ||
            resident->offset > model->resident_bytes - resident->bytes) {
            return POET_E_CORRUPT;
        }
    }
    for (uint32_t i = 0; i < model->constant_count; i++) {
        const poet_constant *table = &model->constants[i];
        if (table->offset % 4u != 0 || table->bytes > model->constant_bytes ||
            table->offset > model->constant_bytes - table->bytes) {
            return POET_E_CORRUPT;
        }
    }
    if (poet_crc32(0, model->constant_words, model->constant_bytes) != model->constant_crc ||
        !poet_record_layout_is_sound(model)) {
        return POET_E_CORRUPT;
    }
    for (uint32_t i = 0; i < model->node_count; i++) {
        const int status = check_node(model, &model->nodes[i], operators);
        if (status != POET_OK) {
            return status;
        }
    }
    return check_micro_batches(model);
}

__attribute__((cold)) static int check_step(const poet_model *model, const poet_schedule *schedule,
                                            const poet_step *step)
{
    if (step->action == POET_COMPUTE) {
        if (step->index >= model->node_count) {
            return POET_E_CORRUPT;
        }
        const poet_node *node = &model->nodes[step->index];
        const uint32_t places = produced_values(model, node) + (node->workspace_bytes > 0);
        return step->place <= schedule->offset_count && places <= schedule->offset_count - step->place ? POET_OK
                                                                                                       : POET_E_CORRUPT;
    }
    if (step->action != POET_PAGE_IN && step->action != POET_PAGE_OUT && step->action != POET_FREE) {
        return POET_E_CORRUPT;
    }
    if (step->action == POET_FREE && step->index == POET_NO_VALUE) {
        return POET_OK;
    }
    if (step->index >= model->value_count) {
        return POET_E_CORRUPT;
    }
    return step->action == POET_FREE || model->values[step->index].page != POET_NO_PAGE ? POET_OK : POET_E_CORRUPT;
}

__attribute__((cold)) bool poet_plan_changes_weights(const poet_model *model, const poet_node *node)
{
    const uint16_t *outputs = model->operands + node->operands + node->input_count;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (outlives_the_step(model, outputs[i])) {
            return true;
        }
    }
    return false;
}

/* A transfer can fail; after the first change of a resident weight there is none, so that a failed step has changed
 * nothing. But a step that changes kept tensors ends with a commit, after whose failure the residents are read back. */
__attribute__((cold)) static int check_order(const poet_model *model, const poet_schedule *schedule)
{
    bool changed = false;
    bool committed = false;
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        const poet_step *step = &schedule->steps[i];
        if (step->action == POET_FREE) {
            continue;
        }
        const poet_node *node = step->action == POET_COMPUTE ? &model->nodes[step->index] : NULL;
        const bool commits = node != NULL && node->op == POET_OP_COMMIT;
        const bool transfers = node == NULL || (node->uses != POET_USES_CPU && !commits);
        if (committed || (changed && transfers)) {
            return POET_E_ORDER;
        }
        changed = changed || (node != NULL && poet_plan_changes_weights(model, node));
        committed = commits;
    }
    return committed == poet_record_ends_steps(model) ? POET_OK : POET_E_ORDER;
}

__attribute__((cold)) int poet_plan_check(const poet_model *model, const poet_schedule *schedule,
                                          const poet_operator_set *operators)
{
    if (schedule->graph_hash != model->graph_hash) {
        return POET_E_HASH;
    }
    int status = check_model(model, schedule->page_count, operators);
    for (uint32_t i = 0; status == POET_OK && i < schedule->step_count; i++) {
        status = check_step(model, schedule, &schedule->steps[i]);
    }
    return status == POET_OK ? check_order(model, schedule) : status;
}
