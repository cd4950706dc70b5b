/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gloss * (x - target) / (x (1 - x)) / size; where x is at 0 or 1 the divisor stays above 0, as in PyTorch. */
#include "../kernels/shape.h"

#define LEAST_DIVISOR 1e-12f

int poet_binary_cross_entropy_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("1,a,a>a", params, sizes);
}

int poet_binary_cross_entropy_backward_run(const poet_op_args *args)
{
    const poet_binary_cross_entropy_backward_params *p =
        (const poet_binary_cross_entropy_backward_params *)args->params;
    const float *loss_gradient = args->inputs[0];
    const float *x = args->inputs[1];
    const float *target = args->inputs[2];
    float *gx = args->outputs[0];
    const float factor = *loss_gradient / (float)p->size;
    for (int32_t i = 0; i < p->size; i++) {
        const float divisor = (1.0f - x[i]) * x[i];
        gx[i] = factor * (x[i] - target[i]) / (divisor < LEAST_DIVISOR ? LEAST_DIVISOR : divisor);
    }
    return POET_OK;
}
