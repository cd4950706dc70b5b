/* SPDX-License-Identifier: Apache-2.0 */
/* What a run does with kept tensors. The runner finds it in the record, so that a program without one links none of it.
 */
#ifndef POET_RUNTIME_KEPT_OPERANDS_H
#define POET_RUNTIME_KEPT_OPERANDS_H

#include "poet/operator.h"
#include "poet/record.h"
#include "poet/runner.h"

typedef struct poet_kept_ways {
    /* Makes a call whose arguments are whole but for its kept tensors. What it reads comes from the homes that count,
     * what it writes goes to those that do not, once the loss is known to be finite. A tensor that lies as a whole, and
     * was read from its begin to its end in order, is checked: POET_E_CORRUPT. A commit is one step more; POET_E_ORDER
     * if a unit was not written. */
    int (*run)(const poet_runner *runner, const poet_run *run, const poet_call *call, const poet_operator *operator,
               poet_op_args *args);

    /* Of a run: forgets what was written, and the loss of the step before. */
    void (*begin)(const poet_runner *runner, poet_record *record);
} poet_kept_ways;

extern const poet_kept_ways poet_kept_on_card;

#endif
