/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gy / 6 between -3 and 3, else 0. */
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(hardsigmoid_backward, 2)

int poet_hardsigmoid_backward_run(const poet_op_args *args)
{
    const poet_hardsigmoid_backward_params *p = (const poet_hardsigmoid_backward_params *)args->params;
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    float *gx = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        gx[i] = x[i] > -3.0f && x[i] < 3.0f ? gy[i] / 6.0f : 0.0f;
    }
    return POET_OK;
}
