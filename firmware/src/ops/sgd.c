/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent without momentum, in place: param -= learning rate * grad. */
#include "../kernels/shape.h"
#include "fours.h"

int poet_sgd_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("a,a=a", params, sizes);
}

int poet_sgd_run(const poet_op_args *args)
{
    const poet_sgd_params *p = (const poet_sgd_params *)args->params;
    const float *gradient = args->inputs[0];
    const float *before = args->inputs[1];
    float *after = args->outputs[0];
    const float rate = args->learning_rate;
    for (int32_t ones = poet_ones(p->size); ones > 0; ones--) {
        *after++ = *before++ - rate * *gradient++;
    }
    for (int32_t fours = poet_fours(p->size); fours > 0; fours--, gradient += 4, before += 4, after += 4) {
        const float step0 = rate * gradient[0], step1 = rate * gradient[1];
        const float step2 = rate * gradient[2], step3 = rate * gradient[3];
        const float next0 = before[0] - step0, next1 = before[1] - step1;
        const float next2 = before[2] - step2, next3 = before[3] - step3;
        after[0] = next0, after[1] = next1, after[2] = next2, after[3] = next3;
    }
    return POET_OK;
}
