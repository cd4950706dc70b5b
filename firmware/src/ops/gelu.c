/* SPDX-License-Identifier: Apache-2.0 */
/* y = x Phi(x), with the exact normal distribution function: Phi(x) = (1 + erf(x / sqrt 2)) / 2. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(gelu, 1)

int poet_gelu_run(const poet_op_args *args)
{
    const poet_gelu_params *p = (const poet_gelu_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = x[i] * poet_normal_distribution(x[i]);
    }
    return POET_OK;
}
