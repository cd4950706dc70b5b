/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gy * (1 - y) * y. */
#include "shape.h"

int poet_sigmoid_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_elementwise_sizes(params[0], 2, sizes);
}

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
