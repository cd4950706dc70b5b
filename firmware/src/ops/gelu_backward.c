/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gy (Phi(x) + x phi(x)), with the normal density phi(x) = exp(-x^2 / 2) / sqrt(2 pi). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(gelu_backward, 2)

int poet_gelu_backward_run(const poet_op_args *args)
{
    const poet_gelu_backward_params *p = (const poet_gelu_backward_params *)args->params;
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    float *gx = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        const float distribution = poet_normal_distribution(x[i]);
        const float density = 0.398942280401432678f * poet_exp(-0.5f * x[i] * x[i]);
        gx[i] = gy[i] * (distribution + x[i] * density);
    }
    return POET_OK;
}
