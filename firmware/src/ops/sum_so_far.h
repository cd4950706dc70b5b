/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that add to a sum so far: their third input, before a bias. Their output may lie in its place. */
#ifndef POET_OPS_SUM_SO_FAR_H
#define POET_OPS_SUM_SO_FAR_H

#include "../kernels/span.h"
#include "poet/operator.h"

#define POET_SUM_INPUT 2u

/* The output, of so many floats, which begins as the sum so far. */
static inline float *poet_sum_so_far(const poet_op_args *args, int32_t floats)
{
    if (args->outputs[0] != args->inputs[POET_SUM_INPUT]) {
        poet_copy(args->outputs[0], args->inputs[POET_SUM_INPUT], floats);
    }
    return args->outputs[0];
}

#endif
