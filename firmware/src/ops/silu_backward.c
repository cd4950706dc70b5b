/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gy * s * (1 + x * (1 - s)), where s = 1 / (1 + exp(-x)). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(silu_backward, 2)

int poet_silu_backward_run(const poet_op_args *args)
{
    const poet_silu_backward_params *p = (const poet_silu_backward_params *)args->params;
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    float *gx = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        const float s = poet_logistic(x[i]);
        gx[i] = gy[i] * (s * (1.0f + x[i] * (1.0f - s)));
    }
    return POET_OK;
}
