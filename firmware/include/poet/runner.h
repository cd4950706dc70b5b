/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule runner: makes the calls of a poet_schedule, with every tensor where it says.
 *
 * The caller owns all memory: the RAM (resident tensors first, then the arena) and the tables, whose lengths follow
 * from the model and the schedule.
 *
 *     poet_runner runner;
 *     poet_runner_init(&runner, &model, &schedule, &tables, ram, ram_bytes);   // POET_E_HASH: made for another graph
 *     poet_pager_open(&pager, &card);
 *     poet_run run = {.pager = &pager, .learning_rate = 0.05f};
 *     poet_runner_step(&runner, &run);
 *     // run.ticks
 *
 * Or piece by piece, in a loop that has other work too:
 *
 *     int status = poet_runner_begin(&runner, &run);
 *     while (status == POET_MORE)
 *         status = poet_runner_next(&runner, &run);
 */
#ifndef POET_RUNNER_H
#define POET_RUNNER_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#include "poet/hooks.h"
#include "poet/model.h"
#include "poet/pager.h"
#include "poet/plan.h"
#include "poet/record.h"
#include "poet/schedule.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_page {
    uint32_t crc;
} poet_page;

#define POET_TRACE_ROWS 126u

/* What each call of a traced run took: as many as a block of the card holds. */
typedef struct poet_trace_part {
    uint32_t ticks[POET_TRACE_ROWS];
    uint32_t number; /* call 126 * number is its first */
    uint32_t crc;    /* of all before it */
} poet_trace_part;

typedef struct poet_tables {
    poet_page *pages;       /* page_count */
    poet_check *checks;     /* check_count */
    uint32_t *homes;        /* POET_HOME_WORDS(bit_count) */
    poet_trace_part *trace; /* one: a trace that does not fit into RAM after the arena goes to the card. NULL where no
                               run is traced */
} poet_tables;

typedef struct poet_runner {
    const poet_model *model;
    const poet_schedule *schedule;
    uint8_t *ram;
    poet_page *pages;
    poet_trace_part *trace; /* in RAM after the arena, if it fits there; else one part, and the others on the card */
    bool trace_in_ram;
    bool traced;       /* the last run was, and its trace is whole */
    uint32_t gathered; /* micro-batches of the batch under way whose gradients are in the sums */
} poet_runner;

/* One run of the schedule: what the caller wants, and what came of it. */
typedef struct poet_run {
    poet_pager *pager;       /* may be NULL where poet_runner_needs_card says no */
    poet_record *record;     /* loaded; NULL for a model without kept tensors */
    const poet_hooks *hooks; /* may be NULL */
    float learning_rate;
    bool trace;     /* a window around each call, instead of one around all; no call overlaps another */
    uint64_t ticks; /* from its begin to its end, with what the caller does between two calls */
    uint32_t page_ins;
    uint32_t page_outs;
    uint32_t calls;  /* calls completed: the failing one's index after an error */
    uint32_t before; /* the clock when it was last looked at */
    bool under_way;
} poet_run;

/* Checks every table of the model and the schedule once, so that a run follows no damaged index. POET_E_HASH,
 * POET_E_CORRUPT (a table, or the constants), POET_E_UNSUPPORTED (a shape that this build lacks), POET_E_ORDER (a
 * transfer after the first change of a parameter or state), POET_E_MEMORY (RAM too small). */
int poet_runner_init(poet_runner *runner, const poet_model *model, const poet_schedule *schedule,
                     const poet_tables *tables, void *ram, uint32_t ram_bytes);

/* The same without the checks, for a plan that has passed them in this RAM. */
void poet_runner_open(poet_runner *runner, const poet_model *model, const poet_schedule *schedule,
                      const poet_tables *tables, void *ram, uint32_t ram_bytes);

/* Checks the plan of an inference as poet_runner_init does; and that its residents begin with the training's, of which
 * it changes no parameter and no state (POET_E_CORRUPT). */
int poet_runner_check_inference(const poet_plan *inference, const poet_model *training, uint32_t ram_bytes);

/* Runs the schedule once. In a model of several micro-batches all runs but the last of a batch end with POET_GATHERED:
 * gradients and loss are in their sums, and no parameter or state has changed. Whatever ends a run otherwise forgets
 * the sums: the batch then begins anew, with the same random numbers.
 *
 * From poet_runner_begin to the end, `hooks->between` called between two calls; POET_STOPPED if
 * that asked for it in time, as poet_runner_stop. On an error the call it happened in is the last, and the window line
 * is low again. If it was the card's, no resident parameter or state has changed; in a model with kept tensors they may
 * have, and none of the step's changes counts: load the record again, and read the residents back. The same holds for
 * POET_E_NOT_FINITE: the loss, or a weight that was to be written to the card, is infinite or no number. */
int poet_runner_step(poet_runner *runner, poet_run *run);

/* Whether a learning rate is a finite number, and not negative. */
static inline bool poet_runner_takes_rate(float rate)
{
    return rate >= 0.0f && rate <= FLT_MAX;
}

/* Begins a run of which nothing is done yet: POET_MORE; POET_E_ABSENT without the card or record that it needs;
 * POET_E_ARGUMENT with another learning rate, which would spoil every weight; POET_E_UNSUPPORTED for a trace in a
 * program that reads none (poet_runner_read_trace). */
int poet_runner_begin(poet_runner *runner, poet_run *run);

/* Makes the next call, one operator or one transfer: POET_MORE, POET_OK or POET_GATHERED with the last
 * one, or the error that ends the run. POET_E_ORDER if none is under way. Between two calls a transfer may be under way
 * on the card's bus, and the arena is in use. */
int poet_runner_next(poet_runner *runner, poet_run *run);

/* Waits until the card's bus is idle, between two calls. An error ends the run. */
int poet_runner_settle(poet_runner *runner, poet_run *run);

/* Ends a run between two calls. Before the first change of a resident parameter or state nothing has changed:
 * POET_STOPPED, or an error of the transfer that was under way. After it the run goes on to its end, as
 * poet_runner_next does. */
int poet_runner_stop(poet_runner *runner, poet_run *run);

/* Forgets what was gathered, between two runs: the next one is the first of its batch. */
void poet_runner_forget_sums(poet_runner *runner);

/* The model's loss, as the last run left it; 0 in a model without one. */
float poet_runner_loss(const poet_runner *runner);

/* To be asked before anything changes that outlives the step: POET_E_NOT_FINITE if the loss is infinite or no number.
 */
int poet_runner_check_loss(const poet_runner *runner);

/* Whether a run does: the schedule pages, or the trace has no room in RAM. */
bool poet_runner_needs_card(const poet_runner *runner, bool trace);

/* Blocks that a run may write from the page area's begin on: those of pages and of a trace. */
uint32_t poet_runner_card_blocks(const poet_schedule *schedule);

/* What a call of the last run took. POET_E_ABSENT where that run was not traced or its trace was lost, POET_E_ARGUMENT
 * after the last call, or an error of the card. */
int poet_runner_read_trace(poet_runner *runner, poet_pager *pager, uint32_t call, uint32_t *ticks);

/* To be called when the RAM was used otherwise. */
void poet_runner_forget_trace(poet_runner *runner);

#ifdef __cplusplus
}
#endif

#endif
