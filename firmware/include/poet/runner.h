/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule runner: walks a poet_schedule over a poet_model, with every tensor where the schedule says.
 *
 * The caller owns all memory: the RAM (resident tensors first, then the arena) and the tables, whose lengths follow
 * from the model and the schedule.
 *
 *     poet_runner runner;
 *     poet_runner_init(&runner, &model, &schedule, &tables, ram, ram_bytes);   // POET_E_HASH: made for another graph
 *     poet_pager_open(&pager, &card);
 *     poet_run run = {.pager = &pager, .learning_rate = 0.05f};
 *     poet_runner_step(&runner, &run);
 *     // run.peak_bytes, run.ticks, runner.ticks[0..step_count)
 */
#ifndef POET_RUNNER_H
#define POET_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/arena.h"
#include "poet/model.h"
#include "poet/pager.h"
#include "poet/schedule.h"
#include "poet/status.h"

/* Where a value is now. */
typedef struct poet_value_state {
    uint32_t offset; /* in the arena */
    uint32_t crc;    /* of its page */
    bool in_ram;
    bool on_card;
} poet_value_state;

typedef struct poet_tables {
    poet_value_state *values; /* value_count */
    poet_block *blocks;       /* value_count + 1: every value and one workspace */
    uint32_t *ticks;          /* step_count: what each step of the last run took */
    uint32_t *peaks;          /* step_count: the most bytes in RAM during it, resident tensors included */
} poet_tables;

typedef struct poet_runner {
    const poet_model *model;
    const poet_schedule *schedule;
    uint8_t *residents;
    poet_arena arena;
    poet_value_state *values;
    uint32_t *ticks;
    uint32_t *peaks;
    uint32_t moving; /* the value that a transfer may be moving, or POET_NO_VALUE */
} poet_runner;

/* One run of the schedule: what the caller wants, and what came of it. */
typedef struct poet_run {
    poet_pager *pager; /* NULL where the schedule pages nothing */
    float learning_rate;
    bool trace; /* a window around each compute and page step, instead of one around all; no step overlaps another */
    uint64_t ticks;
    uint32_t peak_bytes; /* resident tensors included */
    uint32_t arena_bytes;
    uint32_t page_ins;
    uint32_t page_outs;
    uint32_t steps; /* steps completed: the failing one's index after an error */
} poet_run;

/* Checks every table of the model and the schedule once, so that a run follows no damaged index. POET_E_HASH,
 * POET_E_CORRUPT (a table, or the constants), POET_E_UNSUPPORTED (an operator this build lacks), POET_E_ORDER (a transfer behind the
 * first change of a parameter or state), POET_E_MEMORY (RAM too small). */
int poet_runner_init(poet_runner *runner, const poet_model *model, const poet_schedule *schedule,
                     const poet_tables *tables, void *ram, uint32_t ram_bytes);

/* Runs the schedule once. On an error the step it happened in is the last; the window line is low again, and if it was
 * the card's, no parameter or state has changed. */
int poet_runner_step(poet_runner *runner, poet_run *run);

bool poet_schedule_pages(const poet_schedule *schedule);

#endif
