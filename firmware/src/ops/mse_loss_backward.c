/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gloss * 2 (x - target) / size. */
#include "../kernels/shape.h"

int poet_mse_loss_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("1,a,a>a", params, sizes);
}

int poet_mse_loss_backward_run(const poet_op_args *args)
{
    const poet_mse_loss_backward_params *p = (const poet_mse_loss_backward_params *)args->params;
    const float *loss_gradient = args->inputs[0];
    const float *x = args->inputs[1];
    const float *target = args->inputs[2];
    float *gx = args->outputs[0];
    const float factor = 2.0f * *loss_gradient / (float)p->size;
    for (int32_t i = 0; i < p->size; i++) {
        gx[i] = (x[i] - target[i]) * factor;
    }
    return POET_OK;
}
