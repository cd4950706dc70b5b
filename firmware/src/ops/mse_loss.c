/* SPDX-License-Identifier: Apache-2.0 */
/* loss = mean of (x - target)^2. */
#include "../kernels/shape.h"

int poet_mse_loss_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("a,a>1", params, sizes);
}

int poet_mse_loss_run(const poet_op_args *args)
{
    const poet_mse_loss_params *p = (const poet_mse_loss_params *)args->params;
    const float *x = args->inputs[0];
    const float *target = args->inputs[1];
    float *loss = args->outputs[0];
    float sum = 0.0f;
    for (int32_t i = 0; i < p->size; i++) {
        const float difference = x[i] - target[i];
        sum += difference * difference;
    }
    *loss = sum / (float)p->size;
    return POET_OK;
}
