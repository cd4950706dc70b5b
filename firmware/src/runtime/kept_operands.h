/* SPDX-License-Identifier: Apache-2.0 */
/* What a run does with kept tensors. The runner finds it in the record, so that a program without one links none of it.
 */
#ifndef POET_RUNTIME_KEPT_OPERANDS_H
#define POET_RUNTIME_KEPT_OPERANDS_H

#include "poet/operator.h"
#include "poet/record.h"
#include "poet/runner.h"

typedef struct poet_kept_ways {
    /* Runs a node's operator: its arguments are whole but for sink and source. What it reads comes from the homes that
     * count, what it writes goes to those that do not. A tensor that lies as a whole, and was read from its begin to
     * its end in order, is checked: POET_E_CORRUPT. */
    int (*run)(const poet_model *model, const poet_run *run, const poet_node *node, const poet_operator *operator,
               const poet_op_args *args);

    int (*find)(const poet_record *record, const poet_kept *kept, uint32_t row, poet_kept_place *place);
    int (*begin)(const poet_record *record, const poet_kept *kept, uint32_t row, uint32_t *block);
    void (*end)(poet_record *record, const poet_kept *kept, uint32_t crc);
    void (*forget)(poet_record *record);
    int (*commit)(poet_record *record); /* one step more; POET_E_ORDER if a unit was not written */
} poet_kept_ways;

extern const poet_kept_ways poet_kept_on_card;

#endif
