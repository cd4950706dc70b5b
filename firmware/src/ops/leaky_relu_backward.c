/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gy where x is above 0, else slope * gy. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(leaky_relu_backward, 2)

int poet_leaky_relu_backward_run(const poet_op_args *args)
{
    const poet_leaky_relu_backward_params *p = (const poet_leaky_relu_backward_params *)args->params;
    const float slope = poet_from_bits(p->slope_f32);
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    float *gx = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        gx[i] = x[i] > 0.0f ? gy[i] : gy[i] * slope;
    }
    return POET_OK;
}
