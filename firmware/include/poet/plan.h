/* SPDX-License-Identifier: Apache-2.0 */
/* What is run, and how. A training step's plan may have an inference's beside it: a model of its own, whose table of
 * residents is the training's with its own input and output after them, so both know the same parameters. The two
 * never run at once; what is after the training's residents belongs to whichever runs. */
#ifndef POET_PLAN_H
#define POET_PLAN_H

#include "poet/model.h"
#include "poet/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_plan {
    const poet_model *model;
    const poet_schedule *schedule;
} poet_plan;

/* What makes features of the batch of a head's step, whose residents it shares: those of the first `at_once` samples.
 */
typedef struct poet_extraction {
    poet_plan plan;
    uint16_t samples;       /* of a batch */
    uint16_t at_once;       /* a divisor of it */
    const poet_plan *infer; /* one sample in evaluation mode, from features of its own; NULL for none */
} poet_extraction;

#ifdef __cplusplus
}
#endif

#endif
