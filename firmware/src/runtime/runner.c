/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/runner.h"

#include <stddef.h>
#include <string.h>

#include "poet/finite.h"

#include "kept_operands.h"
#include "micro_batches.h"
#include "plan_check.h"
#include "trace.h"

/* --- start --- */

static uint32_t trace_parts(const poet_schedule *schedule)
{
    return (schedule->call_count + POET_TRACE_ROWS - 1u) / POET_TRACE_ROWS;
}

/* The trace, where one is asked for, lies in RAM that nothing else takes, if there is enough. */
__attribute__((cold)) static void place_trace(poet_runner *runner, uint32_t ram_bytes)
{
    const uint32_t taken = (runner->schedule->ram_bytes + 3u) / 4u * 4u;
    if (taken <= ram_bytes && trace_parts(runner->schedule) <= (ram_bytes - taken) / sizeof *runner->trace) {
        runner->trace = (poet_trace_part *)(void *)(runner->ram + taken);
        runner->trace_in_ram = true;
    }
}

/* NULL in a model without one. */
__attribute__((cold, noinline)) static float *loss_of(const poet_runner *runner)
{
    const poet_model *model = runner->model;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == POET_RESIDENT_LOSS && model->residents[i].bytes == sizeof(float)) {
            return (float *)(void *)(runner->ram + model->residents[i].offset);
        }
    }
    return NULL;
}

/* Whether an inference keeps nothing on the card, or what the training has there, in the same places. */
static bool keeps_alike(const poet_model *model, const poet_model *training)
{
    return model->kept_count == 0 ||
           (model->kept == training->kept && model->kept_count == training->kept_count &&
            model->unit_count == training->unit_count && model->home_blocks == training->home_blocks);
}

__attribute__((cold)) int poet_runner_check_inference(const poet_plan *inference, const poet_model *training,
                                                      uint32_t ram_bytes)
{
    const poet_model *model = inference->model;
    const poet_schedule *schedule = inference->schedule;
    if (model->residents != training->residents || model->resident_count < training->resident_count ||
        model->resident_bytes < training->resident_bytes || !keeps_alike(model, training) ||
        model->micro_batches != 1u) {
        return POET_E_CORRUPT;
    }
    const int status = poet_plan_check(model, schedule, ram_bytes);
    for (uint32_t i = 0; status == POET_OK && i < schedule->call_count; i++) {
        if ((schedule->calls[i].flags & POET_CHANGES) != 0) {
            return POET_E_CORRUPT;
        }
    }
    return status;
}

__attribute__((cold)) int poet_runner_init(poet_runner *runner, const poet_model *model, const poet_schedule *schedule,
                                           const poet_tables *tables, void *ram, uint32_t ram_bytes)
{
    const int status = poet_plan_check(model, schedule, ram_bytes);
    if (status == POET_OK) {
        poet_runner_open(runner, model, schedule, tables, ram, ram_bytes);
    }
    return status;
}

void poet_runner_open(poet_runner *runner, const poet_model *model, const poet_schedule *schedule,
                      const poet_tables *tables, void *ram, uint32_t ram_bytes)
{
    runner->model = model;
    runner->schedule = schedule;
    runner->ram = ram;
    runner->pages = tables->pages;
    runner->trace = tables->trace;
    runner->trace_in_ram = false;
    runner->traced = false;
    runner->gathered = 0;
    if (tables->trace != NULL) {
        place_trace(runner, ram_bytes);
    }
}

bool poet_runner_needs_card(const poet_runner *runner, bool trace)
{
    return (trace && !runner->trace_in_ram) || runner->model->kept_count > 0 || runner->schedule->page_count > 0;
}

static int wait_for_bus(const poet_run *run)
{
    return run->pager == NULL ? POET_OK : run->pager->ways->wait(run->pager);
}

/* --- trace --- */

__attribute__((cold)) uint32_t poet_runner_card_blocks(const poet_schedule *schedule)
{
    return schedule->page_blocks + trace_parts(schedule);
}

__attribute__((cold)) void poet_runner_forget_sums(poet_runner *runner)
{
    runner->gathered = 0;
}

__attribute__((cold)) void poet_runner_forget_trace(poet_runner *runner)
{
    runner->traced = false;
}

/* --- calls --- */

/* Whether a call is passed over until the last micro-batch. */
static bool waits_for_the_batch(const poet_runner *runner, const poet_call *call)
{
    return (call->flags & POET_CHANGES) != 0 && poet_is_gathering(runner);
}

/* What a call needs before it. POET_MORE: it is passed over. */
static int prepare(const poet_runner *runner, const poet_run *run, const poet_call *call)
{
    const int status = (call->flags & POET_WAITS) != 0 ? wait_for_bus(run) : POET_OK;
    if (status != POET_OK || (call->flags & POET_CHANGES) == 0) {
        return status;
    }
    return poet_is_gathering(runner) ? POET_MORE : poet_runner_check_loss(runner);
}

/* Starts a transfer. A device without DMA has completed it by now. */
__attribute__((cold)) static int move_page(const poet_runner *runner, poet_run *run, const poet_call *call)
{
    const uint32_t *words = runner->schedule->words + call->words;
    uint32_t *crc = &runner->pages[words[POET_PAGE_NUMBER]].crc;
    const uint32_t block = run->pager->page_area + words[POET_PAGE_BLOCK];
    void *data = runner->ram + words[POET_PAGE_PLACE];
    if (call->op == POET_PAGE_OUT) {
        run->page_outs++;
        return run->pager->ways->start_out(run->pager, block, data, words[POET_PAGE_BYTES], crc);
    }
    run->page_ins++;
    return run->pager->ways->start_in(run->pager, block, data, words[POET_PAGE_BYTES], *crc);
}

/* From the next call on: one, or all. */
static int make_calls(poet_runner *runner, poet_run *run, bool one)
{
    const poet_schedule *schedule = runner->schedule;
    uint8_t *const ram = runner->ram;
    uint8_t *const constants = (uint8_t *)(uintptr_t)runner->model->constant_words;
    const poet_call *call = &schedule->calls[run->calls];
    const poet_call *const end = one ? call + 1 : schedule->calls + schedule->call_count;
    void *places[POET_MAX_INPUTS + POET_MAX_OUTPUTS + 1];
    poet_op_args args = {NULL, (const void *const *)places, places, NULL, run->learning_rate, NULL, NULL};
    int status = POET_OK;
    for (; call != end; call++) {
        if ((call->flags & (POET_WAITS | POET_CHANGES)) != 0) {
            status = prepare(runner, run, call);
            if (status == POET_MORE) {
                status = POET_OK;
                continue;
            }
            if (status != POET_OK) {
                break;
            }
        }
        if (call->op >= POET_PAGE_IN) {
            status = move_page(runner, run, call);
        } else {
            const uint32_t *word = schedule->words + call->words;
            const uint32_t operands = (uint32_t)call->inputs + call->outputs;
            for (uint32_t i = 0; constants == NULL && i < operands; i++) {
                places[i] = ram + word[i];
            }
            for (uint32_t i = 0; constants != NULL && i < operands; i++) {
                places[i] =
                    (word[i] & POET_WORD_CONSTANT) != 0 ? constants + (word[i] - POET_WORD_CONSTANT) : ram + word[i];
            }
            args.params = schedule->params + call->params;
            args.outputs = places + call->inputs;
            args.workspace = (call->flags & POET_WORKSPACE) != 0 ? ram + word[operands] : NULL;
            const poet_operator *operator = &schedule->operators[call->op];
            status =
                run->record == NULL ? operator->run(&args) : run->record->ways->run(runner, run, call, operator, &args);
        }
        if (status != POET_OK) {
            break;
        }
    }
    run->calls = (uint32_t)(call - schedule->calls);
    return status;
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

static int end(poet_runner *runner, poet_run *run, int status)
{
    set_window(run, false);
    runner->traced = runner->traced && status == POET_OK;
    run->under_way = false;
    return runner->model->micro_batches > 1u ? poet_micro_batch_end(runner, status) : status;
}

/* A tensor's next version may be written before the loss is known: the last step's loss must not speak for it. */
__attribute__((cold)) static void forget_loss(const poet_runner *runner)
{
    float *loss = loss_of(runner);
    if (loss != NULL) {
        *loss = 0.0f;
    }
}

int poet_runner_begin(poet_runner *runner, poet_run *run)
{
    if (!poet_runner_takes_rate(run->learning_rate)) {
        return POET_E_ARGUMENT;
    }
    if ((run->pager == NULL && poet_runner_needs_card(runner, run->trace)) ||
        (run->record == NULL && runner->model->kept_count > 0)) {
        return POET_E_ABSENT;
    }
    run->ticks = 0;
    run->page_ins = 0;
    run->page_outs = 0;
    run->calls = 0;
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
    if (runner->model->micro_batches > 1u) {
        poet_micro_batch_begin(runner);
    }
    return runner->schedule->call_count > 0 ? POET_MORE : end(runner, run, POET_OK);
}

/* Calls, after the last of which, and after a failed one, the bus is idle; and after each that is timed for itself. */
static int go_on(poet_runner *runner, poet_run *run, bool one)
{
    const int status = make_calls(runner, run, one);
    if (status == POET_OK && run->calls < runner->schedule->call_count && !run->trace) {
        return POET_OK;
    }
    const int transfer = wait_for_bus(run);
    run->calls -= status == POET_OK && transfer != POET_OK;
    return status != POET_OK ? status : transfer;
}

/* Differences of a wrapping counter, summed in 64 bits: a run may be longer than the counter's period. */
static uint32_t take_ticks(poet_run *run)
{
    const uint32_t now = ticks_now(run);
    const uint32_t ticks = now - run->before;
    run->ticks += ticks;
    run->before = now;
    return ticks;
}

int poet_runner_next(poet_runner *runner, poet_run *run)
{
    if (!run->under_way) {
        return POET_E_ORDER;
    }
    const uint32_t number = run->calls;
    const bool traced = run->trace && !waits_for_the_batch(runner, &runner->schedule->calls[number]);
    if (traced) {
        pause_between_windows(run);
        set_window(run, true);
        run->before = ticks_now(run);
    }
    const int status = go_on(runner, run, true);
    const uint32_t ticks = take_ticks(run);
    if (traced) {
        set_window(run, false);
    }
    if (status != POET_OK) {
        return end(runner, run, status);
    }
    if (run->trace && poet_keep_ticks != NULL) {
        poet_keep_ticks(runner, run, number, ticks);
        run->before = ticks_now(run);
    }
    return run->calls == runner->schedule->call_count ? end(runner, run, POET_OK) : POET_MORE;
}

int poet_runner_settle(poet_runner *runner, poet_run *run)
{
    const int status = run->under_way ? wait_for_bus(run) : POET_OK;
    return status == POET_OK ? POET_OK : end(runner, run, status);
}

static bool has_changed_weights(const poet_runner *runner, const poet_run *run)
{
    for (uint32_t i = 0; !poet_is_gathering(runner) && i < run->calls; i++) {
        if ((runner->schedule->calls[i].flags & POET_CHANGES) != 0) {
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

/* Whether somebody looks at the clock, or has a word, between two calls. */
static bool needs_each(const poet_run *run)
{
    return run->trace || (run->hooks != NULL && (run->hooks->ticks != NULL || run->hooks->between != NULL));
}

static bool may_go_on(const poet_runner *runner, const poet_run *run)
{
    const poet_progress progress = {run->calls, runner->schedule->call_count};
    return run->hooks == NULL || run->hooks->between == NULL || run->hooks->between(run->hooks->context, &progress);
}

int poet_runner_step(poet_runner *runner, poet_run *run)
{
    int status = poet_runner_begin(runner, run);
    if (status == POET_MORE && !needs_each(run)) {
        return end(runner, run, go_on(runner, run, false));
    }
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
    const float *loss = loss_of(runner);
    return loss != NULL ? *loss : 0.0f;
}

int poet_runner_check_loss(const poet_runner *runner)
{
    return poet_is_finite(poet_runner_loss(runner)) ? POET_OK : POET_E_NOT_FINITE;
}
