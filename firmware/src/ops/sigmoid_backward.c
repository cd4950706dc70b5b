/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gy * (1 - y) * y. */
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(sigmoid_backward, 2)

int poet_sigmoid_backward_run(const poet_op_args *args)
{
    const poet_sigmoid_backward_params *p = (const poet_sigmoid_backward_params *)args->params;
    const float *gy = args->inputs[0];
    const float *y = args->inputs[1];
    float *gx = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        gx[i] = gy[i] * (1.0f - y[i]) * y[i];
    }
    return POET_OK;
}
