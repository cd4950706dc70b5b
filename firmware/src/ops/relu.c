/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

int poet_relu_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_elementwise_sizes(params[0], 1, sizes);
}

int poet_relu_run(const poet_op_args *args)
{
    const poet_relu_params *p = (const poet_relu_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = x[i] <= 0.0f ? 0.0f : x[i]; /* so written, a NaN stays one */
    }
    return POET_OK;
}
