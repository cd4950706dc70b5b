/* SPDX-License-Identifier: Apache-2.0 */
/* y = x / (1 + exp(-x)). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(silu, 1)

int poet_silu_run(const poet_op_args *args)
{
    const poet_silu_params *p = (const poet_silu_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = x[i] / (1.0f + poet_exp(-x[i]));
    }
    return POET_OK;
}
