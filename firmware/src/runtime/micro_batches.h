/* SPDX-License-Identifier: Apache-2.0 */
/* A training step in several runs of the schedule, one a micro-batch: gradients and loss add up, and the last run
 * changes the weights. Between two runs every parameter and state is that of the last whole batch: it can be committed,
 * and the batch given up, at any time. */
#ifndef POET_RUNTIME_MICRO_BATCHES_H
#define POET_RUNTIME_MICRO_BATCHES_H

#include <stdbool.h>

#include "poet/operator.h"
#include "poet/runner.h"

/* Whether a run adds to the sums and changes no weight: all but the last of a batch. */
static inline bool poet_is_gathering(const poet_runner *runner)
{
    return runner->gathered + 1u < runner->model->micro_batches;
}

/* Of a model of several, which names them (POET_KERNELS(micro_batches)). */
POET_OPTIONAL void poet_micro_batch_begin(const poet_runner *runner);

/* What the end of a run is, of one that ended so: POET_GATHERED in place of POET_OK for all but the last of a batch. */
POET_OPTIONAL int poet_micro_batch_end(poet_runner *runner, int status);

#endif
