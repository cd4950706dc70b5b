/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/runner.h"

#include <stddef.h>

#include "poet/finite.h"

#include "card_part.h"
#include "kept_operands.h"
#include "plan_check.h"
#include "runner_parts.h"

/* --- start --- */

__attribute__((cold, noinline)) float *poet_loss_of(const poet_runner *runner)
{
    const poet_model *model = runner->model;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == POET_RESIDENT_LOSS && model->residents[i].bytes == sizeof(float)) {
            return (float *)(void *)(runner->ram + model->residents[i].offset);
        }
    }
    return NULL;
}

__attribute__((cold)) int poet_runner_check_inference(const poet_plan *inference, const poet_model *training,
                                                      uint32_t ram_bytes)
{
    const poet_model *model = inference->model;
    const poet_schedule *schedule = inference->schedule;
    if (model->resident_count < training->resident_count || model->resident_bytes < training->resident_bytes ||
        model->micro_batches != 1u) {
        return POET_E_CORRUPT;
    }
    /* A plan that needs no string functions links none for this. */
    const uint8_t *own = (const void *)model->residents;
    const uint8_t *its = (const void *)training->residents;
    for (uint32_t i = 0; i < training->resident_count * sizeof *model->residents; i++) {
        if (own[i] != its[i]) {
            return POET_E_CORRUPT;
        }
    }
    const int status = poet_plan_check(model, schedule, ram_bytes);
    if (status == POET_OK && &poet_on_card != NULL && !poet_on_card.alike(model, training)) {
        return POET_E_CORRUPT;
    }
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
    if (tables->trace != NULL && poet_trace_place != NULL) {
        poet_trace_place(runner, ram_bytes);
    }
}

bool poet_runner_needs_card(const poet_runner *runner, bool trace)
{
    return (trace && !runner->trace_in_ram) || runner->model->kept_count > 0 || runner->schedule->page_count > 0;
}

static int wait_for_bus(const poet_run *run)
{
    return run->pager == NULL ? POET_OK : poet_on_card.wait(run->pager);
}

__attribute__((cold)) void poet_runner_forget_sums(poet_runner *runner)
{
    runner->gathered = 0;
}

/* --- calls --- */

#define MOSTLY(condition) __builtin_expect((condition) != 0, 1) /* keeps what follows on the straight way */

/* What a call needs before it, or in place of it. POET_MORE: that is all. */
__attribute__((cold, noinline)) static int attend(const poet_runner *runner, poet_run *run, const poet_call *call)
{
    int status = (call->flags & POET_WAITS) != 0 ? wait_for_bus(run) : POET_OK;
    if (status == POET_OK && call->op >= POET_PAGE_IN) {
        status = poet_on_card.move(runner, run, call);
        return status == POET_OK ? POET_MORE : status;
    }
    if (status != POET_OK || (call->flags & POET_CHANGES) == 0) {
        return status;
    }
    return poet_is_gathering(runner) ? POET_MORE : poet_runner_check_loss(runner);
}

/* Waits for the bus where that is due. Then takes the clock's differences, which may wrap, in 64 bits: a run may be
 * longer than the counter's period. */
__attribute__((noinline, cold)) static int after_calls(const poet_runner *runner, poet_run *run, int status)
{
    if (status != POET_OK || run->calls == runner->schedule->call_count || run->trace) {
        const int transfer = wait_for_bus(run);
        run->calls -= status == POET_OK && transfer != POET_OK;
        status = status != POET_OK ? status : transfer;
    }
    const uint32_t now = poet_ticks_now(run);
    run->ticks += now - run->before;
    run->before = now;
    return status;
}

int poet_make_calls(poet_runner *runner, poet_run *run, bool one)
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
        if ((call->flags & (POET_WAITS | POET_CHANGES)) != 0 || call->op >= POET_PAGE_IN) {
            status = attend(runner, run, call);
            if (status == POET_MORE) {
                continue;
            }
            if (status != POET_OK) {
                break;
            }
        }
        const uint32_t *word = schedule->words + call->words;
        const uint32_t *const workspace = word + call->inputs + call->outputs;
        void **place = places;
        if (MOSTLY(constants == NULL)) {
            while (word != workspace) {
                *place++ = ram + *word++;
            }
        }
        for (; word != workspace; word++) {
            *place++ = (*word & POET_WORD_CONSTANT) != 0 ? constants + (*word - POET_WORD_CONSTANT) : ram + *word;
        }
        args.params = schedule->params + call->params;
        args.outputs = places + call->inputs;
        args.workspace = (call->flags & POET_WORKSPACE) != 0 ? ram + *workspace : NULL;
        const poet_operator *operator = &schedule->operators[call->op];
        status =
            run->record == NULL ? operator->run(&args) : run->record->ways->run(runner, run, call, operator, &args);
        if (status != POET_OK) {
            break;
        }
    }
    run->calls = (uint32_t)(call - schedule->calls);
    status = status == POET_MORE ? POET_OK : status;
    return run->pager == NULL && run->hooks == NULL ? status : after_calls(runner, run, status);
}

/* --- a run --- */

static int end(poet_runner *runner, poet_run *run, int status)
{
    poet_set_window(run, false);
    runner->traced = runner->traced && status == POET_OK;
    run->under_way = false;
    return runner->model->micro_batches > 1u ? poet_micro_batch_end(runner, status) : status;
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
    if (run->trace && poet_trace_call == NULL) {
        return POET_E_UNSUPPORTED;
    }
    run->ticks = 0;
    run->page_ins = 0;
    run->page_outs = 0;
    run->calls = 0;
    runner->traced = run->trace;
    if (run->record != NULL) {
        run->record->ways->begin(runner, run->record);
    }
    run->under_way = true;
    poet_set_window(run, !run->trace);
    run->before = poet_ticks_now(run);
    if (runner->model->micro_batches > 1u) {
        poet_micro_batch_begin(runner);
    }
    return runner->schedule->call_count > 0 ? POET_MORE : end(runner, run, POET_OK);
}

int poet_runner_next(poet_runner *runner, poet_run *run)
{
    if (!run->under_way) {
        return POET_E_ORDER;
    }
    const int status = run->trace ? poet_trace_call(runner, run) : poet_make_calls(runner, run, true);
    return status == POET_OK && run->calls < runner->schedule->call_count ? POET_MORE : end(runner, run, status);
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
        return end(runner, run, poet_make_calls(runner, run, false));
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
    const float *loss = poet_loss_of(runner);
    return loss != NULL ? *loss : 0.0f;
}

int poet_runner_check_loss(const poet_runner *runner)
{
    return poet_is_finite(poet_runner_loss(runner)) ? POET_OK : POET_E_NOT_FINITE;
}
