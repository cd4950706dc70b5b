/* SPDX-License-Identifier: Apache-2.0 */
/* What this firmware was built with: a model and its schedule from generated headers, or (POET_NO_MODEL) neither. */
#ifndef POET_BUILT_H
#define POET_BUILT_H

#include "poet/model.h"
#include "poet/operator.h"
#include "poet/plan.h"
#include "poet/runner.h"
#include "poet/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_built {
    const poet_model *model; /* NULL for none */
    const poet_schedule *schedule;
    poet_tables tables;                 /* for all plans */
    const poet_plan *inference;         /* beside the training step's; NULL for none */
    const poet_extraction *extraction;  /* likewise */
    const poet_operator_set *operators; /* to benchmark */
} poet_built;

extern const poet_built poet_built_in;

#ifdef __cplusplus
}
#endif

#endif
