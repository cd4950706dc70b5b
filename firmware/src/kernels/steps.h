/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of `pointwise`, each over some elements. */
#ifndef POET_KERNELS_STEPS_H
#define POET_KERNELS_STEPS_H

#include <stdint.h>

/* y = step(a, b): of n elements, at least one. Tensors are the same or apart. */
typedef void poet_step_function(float *y, const float *a, const float *b, const int32_t *numbers, int32_t n);

typedef struct poet_step {
    poet_step_function *run; /* NULL where pointwise.c has the loop */
    uint8_t operands;        /* beside y */
    uint8_t numbers;         /* words that follow */
    uint8_t reads_y;
} poet_step;

enum {
#define POET_STEP(code, NAME, name, kind, flops, value) POET_STEP_##NAME = code,
#include "poet/steps.def"
#undef POET_STEP
    POET_STEP_CODES
};

/* By code; no step has code 0. */
extern const poet_step poet_step_table[POET_STEP_CODES];

#endif
