/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the runner that a program may lack, and what they need of it.
 *
 * Micro-batches are a training step in several runs of the schedule: gradients and loss add up, and the last run
 * changes the weights. Between two runs every parameter and state is that of the last whole batch: it can be committed,
 * and the batch given up, at any time. */
#ifndef POET_RUNTIME_RUNNER_PARTS_H
#define POET_RUNTIME_RUNNER_PARTS_H

#include <stddef.h>

#include "poet/operator.h"
#include "poet/runner.h"

/* Of a model of several, which names them (POET_KERNELS(micro_batches)). */
POET_OPTIONAL void poet_micro_batch_begin(const poet_runner *runner);

/* What the end of a run is, of one that ended so: POET_GATHERED in place of POET_OK for all but the last of a batch. */
POET_OPTIONAL int poet_micro_batch_end(poet_runner *runner, int status);

/* The trace, where one is asked for, lies in RAM that nothing else takes, if there is enough. */
POET_OPTIONAL void poet_trace_place(poet_runner *runner, uint32_t ram_bytes);

/* Makes the next call of a traced run, in a window of its own, and keeps what it took. */
POET_OPTIONAL int poet_trace_call(poet_runner *runner, poet_run *run);

/* From the next call on, one or all. After the last one, after a failed one, and after each of a traced run the bus is
 * idle. */
int poet_make_calls(poet_runner *runner, poet_run *run, bool one);

/* NULL in a model without one. */
float *poet_loss_of(const poet_runner *runner);

/* Whether a run adds to the sums of micro-batches and changes no weight: all but the last of a batch. */
static inline bool poet_is_gathering(const poet_runner *runner)
{
    return runner->gathered + 1u < runner->model->micro_batches;
}

static inline uint32_t poet_ticks_now(const poet_run *run)
{
    return run->hooks != NULL && run->hooks->ticks != NULL ? run->hooks->ticks() : 0u;
}

static inline void poet_set_window(const poet_run *run, bool inside)
{
    if (run->hooks != NULL && run->hooks->window != NULL) {
        run->hooks->window(inside);
    }
}

#endif
