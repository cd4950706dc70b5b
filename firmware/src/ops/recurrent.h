/* SPDX-License-Identifier: Apache-2.0 */
/* What recurrent layers have in common: s steps of n samples, whose states are h numbers each. */
#ifndef POET_OPS_RECURRENT_H
#define POET_OPS_RECURRENT_H

#include "../kernels/product.h"
#include "../kernels/shape.h"
#include "../kernels/span.h"
#include "fours.h"

/* The next operand where there is one. */
static inline const float *poet_next_input(const void *const **inputs, int32_t given)
{
    return given ? *(*inputs)++ : NULL;
}

/* A gradient of a state, which begins as that of the state after all steps. */
static inline void poet_begin_gradient(float *gradient, const float *after, int32_t floats)
{
    if (after == NULL) {
        (void)poet_clear(gradient, floats);
    } else {
        (void)poet_copy(gradient, after, floats);
    }
}

/* What a step's results have of their own is added. */
static inline void poet_add_gradient(float *gradient, const float *gy, int32_t at, int32_t floats)
{
    if (gy == NULL) {
        return;
    }
    gy += at;
    for (int32_t fours = poet_fours(floats); fours > 0; fours--, gradient += 4, gy += 4) {
        const float a = gradient[0] + gy[0];
        const float b = gradient[1] + gy[1];
        const float c = gradient[2] + gy[2];
        const float d = gradient[3] + gy[3];
        gradient[0] = a;
        gradient[1] = b;
        gradient[2] = c;
        gradient[3] = d;
    }
    for (int32_t i = poet_ones(floats) - 1; i >= 0; i--) {
        gradient[i] += gy[i];
    }
}

/* The first output, with the first input's numbers, whose place it may take over. */
static inline float *poet_in_place(const poet_op_args *args, int32_t floats)
{
    if (args->outputs[0] != args->inputs[0]) {
        (void)poet_copy(args->outputs[0], args->inputs[0], floats);
    }
    return args->outputs[0];
}

/* The place of a step among all, of t steps that come before it. */
static inline int32_t poet_step_at(int32_t t, int32_t s, int32_t reverse)
{
    return reverse ? s - 1 - t : t;
}

/* What lies `apart` floats from one row to the next is added up over the n samples' states with rows of weights. */
static inline poet_product poet_states_by_weights(int32_t n, int32_t h, int32_t rows, int32_t apart)
{
    return (poet_product){.m = n, .k = h, .n = rows, .a_m = h, .a_k = 1, .c_k = 1, .c_n = h, .y_m = apart};
}

/* And back: gradients of `rows` numbers a sample, by the weights, to those of the states. */
static inline poet_product poet_gradients_by_weights(int32_t n, int32_t h, int32_t rows, int32_t apart)
{
    return (poet_product){.m = n, .k = rows, .n = h, .a_m = apart, .a_k = 1, .c_k = h, .c_n = 1, .y_m = h};
}

#endif
