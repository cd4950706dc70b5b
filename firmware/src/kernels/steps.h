/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of `pointwise`, each over some elements. */
#ifndef POET_KERNELS_STEPS_H
#define POET_KERNELS_STEPS_H

#include <stdint.h>

#include "poet/operator.h"

/* y = step(a, b): of n elements, at least one. Tensors are the same or apart. */
typedef void poet_step_function(float *y, const float *a, const float *b, const int32_t *numbers, int32_t n);

struct poet_step {
    poet_step_function *run; /* NULL where pointwise.c has the loop */
    uint8_t operands;        /* beside y */
    uint8_t numbers;         /* words that follow */
    uint8_t reads_y;
};

enum {
#define POET_STEP(code, NAME, name, kind, flops, value) POET_STEP_##NAME = code,
#include "poet/steps.def"
#undef POET_STEP
    POET_STEP_CODES
};

/* That operators run by themselves. */
extern const poet_step poet_copy_step, poet_relu_step;

/* By code; NULL, or the address of a NULL, where the program has no such step. */
extern const poet_step *const *const poet_steps_named[POET_STEP_CODES];

#endif
