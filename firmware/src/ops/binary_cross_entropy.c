/* SPDX-License-Identifier: Apache-2.0 */
/* loss = mean of -(target log x + (1 - target) log(1 - x)), no logarithm taken as less than -100, as in PyTorch. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

#define LEAST_LOGARITHM (-100.0f)

int poet_binary_cross_entropy_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("a,a>1", params, sizes);
}

static float bounded(float logarithm)
{
    return logarithm < LEAST_LOGARITHM ? LEAST_LOGARITHM : logarithm;
}

int poet_binary_cross_entropy_run(const poet_op_args *args)
{
    const poet_binary_cross_entropy_params *p = (const poet_binary_cross_entropy_params *)args->params;
    const float *x = args->inputs[0];
    const float *target = args->inputs[1];
    float *loss = args->outputs[0];
    float sum = 0.0f;
    for (int32_t i = 0; i < p->size; i++) {
        const float of_one = bounded(poet_log(x[i]));
        const float of_zero = bounded(poet_log_one_plus(-x[i]));
        sum += (target[i] - 1.0f) * of_zero - target[i] * of_one;
    }
    *loss = sum / (float)p->size;
    return POET_OK;
}
