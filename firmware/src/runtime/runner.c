/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/runner.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

#include "poet/crc32.h"
#include "poet/finite.h"
#include "poet/operator.h"

#include "kept_operands.h"
#include "micro_batches.h"
#include "operands.h"
#include "plan_check.h"

/* --- start --- */

/* Blocks that the schedule's pages take. */
static uint32_t page_blocks(const poet_model *model)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < model->value_count; i++) {
        const poet_value *value = &model->values[i];
        if (value->page != POET_NO_PAGE) {
            const uint32_t behind = value->page_block + (value->bytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
            end = behind > end ? behind : end;
        }
    }
    return end;
}

/* The trace lies in RAM that nothing else takes, if there is enough. */
__attribute__((cold)) static void place_trace(poet_runner *runner, const poet_tables *tables, uint32_t ram_bytes)
{
    const uint32_t taken = runner->model->resident_bytes + (runner->schedule->arena_bytes + 3u) / 4u * 4u;
    const uint32_t parts = (runner->schedule->step_count + POET_TRACE_ROWS - 1u) / POET_TRACE_ROWS;
    runner->trace_in_ram = taken <= ram_bytes && parts <= (ram_bytes - taken) / sizeof *runner->trace;
    runner->trace = runner->trace_in_ram ? (poet_trace_part *)(void *)(runner->residents + taken) : tables->trace;
    runner->trace_block = page_blocks(runner->model);
    runner->traced = false;
}

static int check(const poet_model *model, const poet_schedule *schedule, const poet_tables *tables, uint32_t ram_bytes)
{
    const int status = poet_plan_check(model, schedule, tables->operators);
    if (status != POET_OK) {
        return status;
    }
    const bool fits = model->resident_bytes % 4u == 0 && model->resident_bytes <= ram_bytes &&
                      schedule->arena_bytes <= ram_bytes - model->resident_bytes;
    return fits ? POET_OK : POET_E_MEMORY;
}

/* Whether an inference keeps nothing on the card, or what the training has there, in the same places. */
static bool keeps_alike(const poet_model *model, const poet_model *training)
{
    return model->kept_count == 0 ||
           (model->kept == training->kept && model->kept_count == training->kept_count &&
            model->unit_count == training->unit_count && model->home_blocks == training->home_blocks);
}

__attribute__((cold)) int poet_runner_check_inference(const poet_plan *inference, const poet_model *training,
                                                      const poet_tables *tables, uint32_t ram_bytes)
{
    const poet_model *model = inference->model;
    if (model->residents != training->residents || model->resident_count < training->resident_count ||
        model->resident_bytes < training->resident_bytes || !keeps_alike(model, training) ||
        model->micro_batches != 1u) {
        return POET_E_CORRUPT;
    }
    const int status = check(model, inference->schedule, tables, ram_bytes);
    for (uint32_t i = 0; status == POET_OK && i < model->node_count; i++) {
        if (poet_plan_changes_weights(model, &model->nodes[i])) {
            return POET_E_CORRUPT;
        }
    }
    return status;
}

__attribute__((cold)) int poet_runner_init(poet_runner *runner, const poet_model *model, const poet_schedule *schedule,
                                           const poet_tables *tables, void *ram, uint32_t ram_bytes)
{
    const int status = check(model, schedule, tables, ram_bytes);
    if (status == POET_OK) {
        poet_runner_open(runner, model, schedule, tables, ram, ram_bytes);
    }
    return status;
}

__attribute__((cold)) void poet_runner_open(poet_runner *runner, const poet_model *model, const poet_schedule *schedule,
                                            const poet_tables *tables, void *ram, uint32_t ram_bytes)
{
    runner->model = model;
    runner->schedule = schedule;
    runner->operators = tables->operators;
    runner->residents = ram;
    runner->pages = tables->pages;
    poet_arena_init(&runner->arena, runner->residents + model->resident_bytes, schedule->arena_bytes, tables->blocks,
                    schedule->live_count);
    place_trace(runner, tables, ram_bytes);
    runner->gathered = 0;
}

static bool schedule_pages(const poet_schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        if (schedule->steps[i].action == POET_PAGE_IN || schedule->steps[i].action == POET_PAGE_OUT) {
            return true;
        }
    }
    return false;
}

__attribute__((cold)) bool poet_runner_needs_card(const poet_runner *runner, bool trace)
{
    return (trace && !runner->trace_in_ram) || runner->model->kept_count > 0 || schedule_pages(runner->schedule);
}

/* --- trace --- */

/* Keeps a row. A part that is full, or the last one, goes to the card, where the trace is there: between two windows,
 * while the bus is idle. Its failure loses the trace and not the step, in which weights may have changed by now. */
static void keep_row(poet_runner *runner, const poet_run *run, const poet_trace_row *row)
{
    const uint32_t place = run->steps % POET_TRACE_ROWS;
    const uint32_t number = run->steps / POET_TRACE_ROWS;
    poet_trace_part *part = &runner->trace[runner->trace_in_ram ? number : 0];
    part->rows[place] = *row;
    if (runner->trace_in_ram || !runner->traced ||
        (place + 1u < POET_TRACE_ROWS && run->steps + 1u < runner->schedule->step_count)) {
        return;
    }
    part->number = number;
    part->crc = poet_crc32(0, part, sizeof *part - sizeof part->crc);
    uint32_t crc;
    runner->traced = poet_pager_out(run->pager, run->pager->page_area + runner->trace_block + number, part,
                                    sizeof *part, &crc) == POET_OK;
}

static bool is_whole(const poet_trace_part *part, uint32_t number)
{
    return part->number == number && part->crc == poet_crc32(0, part, sizeof *part - sizeof part->crc);
}

int poet_runner_read_trace(poet_runner *runner, poet_pager *pager, uint32_t step, poet_trace_row *row)
{
    const uint32_t number = step / POET_TRACE_ROWS;
    poet_trace_part *part = &runner->trace[runner->trace_in_ram ? number : 0];
    if (!runner->traced) {
        return POET_E_ABSENT;
    }
    if (step >= runner->schedule->step_count) {
        return POET_E_ARGUMENT;
    }
    if (!runner->trace_in_ram && !is_whole(part, number)) {
        const int status = poet_pager_read(pager, pager->page_area + runner->trace_block + number, part, sizeof *part);
        if (status != POET_OK || !is_whole(part, number)) {
            return status != POET_OK ? status : POET_E_CORRUPT;
        }
    }
    *row = part->rows[step % POET_TRACE_ROWS];
    return POET_OK;
}

__attribute__((cold)) uint32_t poet_runner_card_blocks(const poet_model *model, const poet_schedule *schedule)
{
    return page_blocks(model) + (schedule->step_count + POET_TRACE_ROWS - 1u) / POET_TRACE_ROWS;
}

__attribute__((cold)) void poet_runner_forget_trace(poet_runner *runner)
{
    runner->traced = false;
}

/* --- one step of the schedule --- */

/* Completes the transfer under way if it moves this value. */
static int complete_transfer_of(poet_runner *runner, const poet_run *run, uint32_t value)
{
    if (runner->moving != value) {
        return POET_OK;
    }
    runner->moving = POET_NO_VALUE;
    return poet_pager_wait(run->pager);
}

static void *resident_address(const poet_runner *runner, uint16_t reference)
{
    return runner->residents + runner->model->residents[reference - runner->model->value_count].offset;
}

/* NULL for a value that is not in RAM. */
static const void *address(const poet_runner *runner, uint16_t reference)
{
    const poet_model *model = runner->model;
    if (is_resident(model, reference)) {
        return resident_address(runner, reference);
    }
    if (reference >= model->value_count) {
        return (const uint8_t *)model->constant_words + constant(model, reference)->offset;
    }
    const poet_block *block = poet_arena_find(&runner->arena, reference);
    return block == NULL ? NULL : runner->arena.memory + block->offset;
}

/* A value on its way in is complete only when it has arrived; one on its way out can be read meanwhile. */
static int await_arrival(poet_runner *runner, const poet_run *run, uint32_t value)
{
    return runner->moving == value && run->pager->reading ? complete_transfer_of(runner, run, value) : POET_OK;
}

/* Takes the place that a value gets, which must not be there yet. */
static int place_value(poet_runner *runner, uint16_t value, uint32_t offset, void **memory)
{
    if (poet_arena_find(&runner->arena, value) != NULL) {
        return POET_E_ORDER;
    }
    return poet_arena_take(&runner->arena, value, offset, runner->model->values[value].bytes, memory);
}

/* Ends the life of an input at whose offset the node's first output is to lie: the place alone says that it is taken
 * over. Elsewhere nothing happens, and what else lies there keeps its place. */
static int end_input_at(poet_runner *runner, const poet_node *node, const poet_run *run, uint32_t offset)
{
    const uint16_t *operands = runner->model->operands + node->operands;
    const uint32_t bytes = operand_bytes(runner->model, operands[node->input_count]);
    const uint32_t places = poet_operator_takes_over(node->op);
    for (uint32_t i = 0; i < node->input_count && places >> i != 0; i++) {
        const poet_block *block = poet_arena_find(&runner->arena, operands[i]);
        if ((places >> i & 1u) != 0 && block != NULL && block->offset == offset &&
            operand_bytes(runner->model, operands[i]) == bytes) {
            const int status = complete_transfer_of(runner, run, operands[i]);
            return status == POET_OK ? poet_arena_release(&runner->arena, operands[i]) : status;
        }
    }
    return POET_OK;
}

/* Kept tensors have no address. */
static int await_inputs(poet_runner *runner, const poet_node *node, const poet_run *run, const void **inputs)
{
    const uint16_t *operands = runner->model->operands + node->operands;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (is_kept(runner->model, operands[i])) {
            inputs[i] = NULL;
            continue;
        }
        inputs[i] = address(runner, operands[i]);
        if (inputs[i] == NULL) {
            return POET_E_ORDER;
        }
        const int status = await_arrival(runner, run, operands[i]);
        if (status != POET_OK) {
            return status;
        }
    }
    return POET_OK;
}

/* Values get their places, residents have theirs, and kept tensors have none in RAM. */
static int place_outputs(poet_runner *runner, const poet_node *node, const poet_run *run, const uint32_t **places,
                         void **outputs)
{
    const poet_model *model = runner->model;
    const uint16_t *operands = model->operands + node->operands + node->input_count;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (operands[i] >= model->value_count) {
            outputs[i] = is_kept(model, operands[i]) ? NULL : resident_address(runner, operands[i]);
            continue;
        }
        const uint32_t place = *(*places)++;
        int status = i == 0 ? end_input_at(runner, node, run, place) : POET_OK;
        if (status == POET_OK) {
            status = place_value(runner, operands[i], place, &outputs[i]);
        }
        if (status != POET_OK) {
            return status;
        }
    }
    return POET_OK;
}

/* NULL in a model without one. */
__attribute__((cold, noinline)) static void *loss_address(const poet_runner *runner)
{
    const poet_model *model = runner->model;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == POET_RESIDENT_LOSS && model->residents[i].bytes == sizeof(float)) {
            return runner->residents + model->residents[i].offset;
        }
    }
    return NULL;
}

/* To be asked before anything changes that outlives the step. */
__attribute__((cold, noinline)) static int check_loss(const poet_runner *runner)
{
    return poet_is_finite(poet_runner_loss(runner)) ? POET_OK : POET_E_NOT_FINITE;
}

/* Whether a node writes the next version of a kept tensor. */
static bool writes_card(const poet_model *model, const poet_node *node)
{
    const uint16_t *outputs = model->operands + node->operands + node->input_count;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (is_kept(model, outputs[i])) {
            return true;
        }
    }
    return false;
}

static int run_operator(poet_runner *runner, const poet_step *step, poet_run *run)
{
    const poet_model *model = runner->model;
    const poet_node *node = &model->nodes[step->index];
    const uint32_t *places = runner->schedule->offsets + step->place;
    const void *inputs[POET_MAX_INPUTS];
    void *outputs[POET_MAX_OUTPUTS];
    void *workspace = NULL;

    int status = await_inputs(runner, node, run, inputs);
    if (status == POET_OK) {
        status = place_outputs(runner, node, run, &places, outputs);
    }
    if (status == POET_OK && node->workspace_bytes > 0) {
        status = poet_arena_take(&runner->arena, POET_NO_VALUE, *places, node->workspace_bytes, &workspace);
    }
    const bool lasts = poet_plan_changes_weights(model, node) || writes_card(model, node);
    if (status == POET_OK && run->pager != NULL && (node->uses == POET_USES_BOTH || lasts)) {
        status = poet_pager_wait(run->pager); /* the node needs the bus, or: what can still fail has to fail now */
    }
    if (status == POET_OK && lasts) {
        status = check_loss(runner);
    }
    if (status != POET_OK) {
        return status;
    }
    const poet_operator *operator = poet_operator_find(runner->operators, node->op);
    const poet_op_args args = {model->params + node->params, inputs, outputs, workspace,
                               run->learning_rate,           NULL,   NULL};
    status = run->record == NULL ? operator->run(&args) : run->record->ways->run(model, run, node, operator, &args);
    if (node->workspace_bytes > 0) {
        (void)poet_arena_release(&runner->arena, POET_NO_VALUE);
    }
    return status;
}

/* As a page-in, from where the card keeps the tensor. */
static int fetch(poet_runner *runner, const poet_step *step, const poet_run *run)
{
    const uint16_t *operands = runner->model->operands + runner->model->nodes[step->index].operands;
    const uint16_t value = operands[1];
    poet_kept_place place;
    void *data;
    int status = poet_pager_wait(run->pager);
    if (status == POET_OK) {
        status = run->record->ways->find(run->record, kept_of(runner->model, operands[0]), 0, &place);
    }
    if (status == POET_OK) {
        status = place_value(runner, value, runner->schedule->offsets[step->place], &data);
    }
    if (status != POET_OK) {
        return status;
    }
    runner->moving = value;
    status = place.checked ? poet_pager_start_in(run->pager, place.block, data, place.bytes, place.crc)
                           : poet_pager_start_unchecked_in(run->pager, place.block, data, place.bytes);
    return status == POET_OK && run->trace ? complete_transfer_of(runner, run, value) : status;
}

/* As a page-out, to where the tensor's next version belongs. */
static int store(poet_runner *runner, const poet_step *step, const poet_run *run)
{
    const uint16_t *operands = runner->model->operands + runner->model->nodes[step->index].operands;
    const poet_kept *kept = kept_of(runner->model, operands[1]);
    const void *data;
    uint32_t block;
    uint32_t crc;
    int status = await_inputs(runner, &runner->model->nodes[step->index], run, &data);
    if (status == POET_OK) {
        status = check_loss(runner);
    }
    if (status == POET_OK) {
        status = run->record->ways->begin(run->record, kept, 0, &block);
    }
    if (status == POET_OK) {
        runner->moving = operands[0];
        status = poet_pager_start_out(run->pager, block, data, kept->bytes, &crc);
    }
    if (status != POET_OK) {
        return status;
    }
    run->record->ways->end(run->record, kept, crc);
    return run->trace ? complete_transfer_of(runner, run, operands[0]) : POET_OK;
}

static int commit(const poet_runner *runner, const poet_run *run)
{
    int status = poet_pager_wait(run->pager);
    if (status == POET_OK) {
        status = check_loss(runner);
    }
    return status == POET_OK ? run->record->ways->commit(run->record) : status;
}

static int compute(poet_runner *runner, const poet_step *step, poet_run *run)
{
    const poet_node *node = &runner->model->nodes[step->index];
    if (poet_waits_for_the_batch(runner, node)) {
        return POET_OK;
    }
    switch (node->op) {
    case 0:
        return POET_OK;
    case POET_OP_FETCH:
        return fetch(runner, step, run);
    case POET_OP_STORE:
        return store(runner, step, run);
    case POET_OP_COMMIT:
        return commit(runner, run);
    default:
        return run_operator(runner, step, run);
    }
}

/* Starts a transfer. A device without DMA has completed it by now; a traced one is completed inside its window. */
static int page_in(poet_runner *runner, const poet_step *step, poet_run *run)
{
    const poet_value *value = &runner->model->values[step->index];
    const poet_page *page = &runner->pages[value->page];
    if (!page->written) {
        return POET_E_ORDER;
    }
    void *data;
    int status = place_value(runner, step->index, step->place, &data);
    if (status != POET_OK) {
        return status;
    }
    run->page_ins++;
    runner->moving = step->index;
    status = poet_pager_start_in(run->pager, run->pager->page_area + value->page_block, data, value->bytes, page->crc);
    return status == POET_OK && run->trace ? complete_transfer_of(runner, run, step->index) : status;
}

static int page_out(poet_runner *runner, const poet_step *step, poet_run *run)
{
    const poet_value *value = &runner->model->values[step->index];
    poet_page *page = &runner->pages[value->page];
    const void *data = address(runner, step->index);
    if (data == NULL) {
        return POET_E_ORDER;
    }
    page->written = true;
    run->page_outs++;
    runner->moving = step->index;
    const int status =
        poet_pager_start_out(run->pager, run->pager->page_area + value->page_block, data, value->bytes, &page->crc);
    return status == POET_OK && run->trace ? complete_transfer_of(runner, run, step->index) : status;
}

static int release(poet_runner *runner, const poet_step *step, const poet_run *run)
{
    if (step->index == POET_NO_VALUE) {
        return POET_OK;
    }
    if (poet_arena_find(&runner->arena, step->index) == NULL) {
        return POET_E_ORDER;
    }
    const int status = complete_transfer_of(runner, run, step->index);
    return status != POET_OK ? status : poet_arena_release(&runner->arena, step->index);
}

static int execute(poet_runner *runner, const poet_step *step, poet_run *run)
{
    switch (step->action) {
    case POET_COMPUTE:
        return compute(runner, step, run);
    case POET_PAGE_IN:
        return page_in(runner, step, run);
    case POET_PAGE_OUT:
        return page_out(runner, step, run);
    default:
        return release(runner, step, run);
    }
}

/* --- a run --- */

static uint32_t ticks_now(const poet_run *run)
{
    return run->hooks != NULL && run->hooks->ticks != NULL ? run->hooks->ticks() : 0u;
}

static void set_window(const poet_run *run, bool inside)
{
    if (run->hooks != NULL && run->hooks->window != NULL) {
        run->hooks->window(inside);
    }
}

/* Keeps the line low for 30 us: a meter that samples every 10 us must see where one window ends and the next begins. */
static void pause_between_windows(const poet_run *run)
{
    if (run->hooks == NULL || run->hooks->ticks == NULL) {
        return;
    }
    const uint32_t start = run->hooks->ticks();
    while (run->hooks->ticks() - start <= run->hooks->ticks_hz / 33333u) {
    }
}

/* Runs one step; the last one also waits for the bus, and a failed one leaves no transfer behind. */
static int execute_whole(poet_runner *runner, const poet_step *step, poet_run *run, bool last)
{
    int status = execute(runner, step, run);
    if (run->pager != NULL && (last || status != POET_OK)) {
        const int transfer = poet_pager_wait(run->pager);
        status = status != POET_OK ? status : transfer;
    }
    return status;
}

/* Whether a step costs time and energy of its own. */
static bool has_window(const poet_runner *runner, const poet_step *step)
{
    if (step->action != POET_COMPUTE) {
        return step->action != POET_FREE;
    }
    const poet_node *node = &runner->model->nodes[step->index];
    return node->op != 0 && !poet_waits_for_the_batch(runner, node);
}

static int end(poet_runner *runner, poet_run *run, int status)
{
    set_window(run, false);
    runner->traced = runner->traced && status == POET_OK;
    run->arena_bytes = runner->arena.high_water;
    run->under_way = false;
    return poet_micro_batch_end(runner, status);
}

/* A tensor's next version may be written before the loss is known: the last step's loss must not speak for it. */
__attribute__((cold)) static void forget_loss(const poet_runner *runner)
{
    void *loss = loss_address(runner);
    if (loss != NULL) {
        memset(loss, 0, sizeof(float));
    }
}

bool poet_runner_takes_rate(float rate)
{
    return rate >= 0.0f && rate <= FLT_MAX;
}

__attribute__((cold)) int poet_runner_begin(poet_runner *runner, poet_run *run)
{
    if (!poet_runner_takes_rate(run->learning_rate)) {
        return POET_E_ARGUMENT;
    }
    if ((run->pager == NULL && poet_runner_needs_card(runner, run->trace)) ||
        (run->record == NULL && runner->model->kept_count > 0)) {
        return POET_E_ABSENT;
    }
    for (uint32_t i = 0; i < runner->schedule->page_count; i++) {
        runner->pages[i].written = false;
    }
    poet_arena_clear(&runner->arena);
    run->ticks = 0;
    run->peak_bytes = runner->model->resident_bytes;
    run->page_ins = 0;
    run->page_outs = 0;
    run->steps = 0;
    runner->moving = POET_NO_VALUE;
    runner->traced = run->trace;
    if (run->record != NULL) {
        run->record->ways->forget(run->record);
        if (poet_record_ends_steps(runner->model)) {
            forget_loss(runner);
        }
    }
    run->under_way = true;
    set_window(run, !run->trace);
    run->before = ticks_now(run);
    poet_micro_batch_begin(runner);
    return runner->schedule->step_count > 0 ? POET_MORE : end(runner, run, POET_OK);
}

int poet_runner_next(poet_runner *runner, poet_run *run)
{
    if (!run->under_way) {
        return POET_E_ORDER;
    }
    const poet_step *step = &runner->schedule->steps[run->steps];
    const bool traced = run->trace && has_window(runner, step);
    const bool last = run->steps + 1u == runner->schedule->step_count;
    if (traced) {
        pause_between_windows(run);
        set_window(run, true);
        run->before = ticks_now(run);
    }
    poet_arena_begin_peak(&runner->arena);
    const int status = execute_whole(runner, step, run, last);
    /* Differences of a wrapping counter, summed in 64 bits: a run may be longer than the counter's period. */
    const uint32_t now = ticks_now(run);
    if (traced) {
        set_window(run, false);
    }
    const poet_trace_row row = {now - run->before, runner->model->resident_bytes + runner->arena.peak_bytes};
    run->ticks += row.ticks;
    run->peak_bytes = row.peak_bytes > run->peak_bytes ? row.peak_bytes : run->peak_bytes;
    run->before = now;
    if (status != POET_OK) {
        return end(runner, run, status);
    }
    if (run->trace) {
        keep_row(runner, run, &row);
        run->before = ticks_now(run);
    }
    run->steps++;
    return last ? end(runner, run, POET_OK) : POET_MORE;
}

int poet_runner_settle(poet_runner *runner, poet_run *run)
{
    const int status = run->under_way && run->pager != NULL ? poet_pager_wait(run->pager) : POET_OK;
    return status == POET_OK ? POET_OK : end(runner, run, status);
}

static bool has_changed_weights(const poet_runner *runner, const poet_run *run)
{
    for (uint32_t i = 0; !poet_is_gathering(runner) && i < run->steps; i++) {
        const poet_step *step = &runner->schedule->steps[i];
        if (step->action == POET_COMPUTE &&
            poet_plan_changes_weights(runner->model, &runner->model->nodes[step->index])) {
            return true;
        }
    }
    return false;
}

__attribute__((cold)) int poet_runner_stop(poet_runner *runner, poet_run *run)
{
    if (!run->under_way) {
        return POET_E_ORDER;
    }
    int status = POET_MORE;
    if (!has_changed_weights(runner, run)) {
        status = poet_runner_settle(runner, run);
        return status == POET_OK ? end(runner, run, POET_STOPPED) : status;
    }
    while (status == POET_MORE) {
        status = poet_runner_next(runner, run);
    }
    return status;
}

static bool may_go_on(const poet_runner *runner, const poet_run *run)
{
    const poet_progress progress = {run->steps, runner->schedule->step_count};
    return run->hooks == NULL || run->hooks->between == NULL || run->hooks->between(run->hooks->context, &progress);
}

int poet_runner_step(poet_runner *runner, poet_run *run)
{
    int status = poet_runner_begin(runner, run);
    while (status == POET_MORE) {
        status = poet_runner_next(runner, run);
        if (status == POET_MORE && !may_go_on(runner, run)) {
            return poet_runner_stop(runner, run);
        }
    }
    return status;
}

float poet_runner_loss(const poet_runner *runner)
{
    const void *address = loss_address(runner);
    float loss = 0.0f;
    if (address != NULL) {
        memcpy(&loss, address, sizeof loss);
    }
    return loss;
}
