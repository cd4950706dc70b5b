/* SPDX-License-Identifier: Apache-2.0 */
/* y = x above 0, slope * x below. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(leaky_relu, 1)

int poet_leaky_relu_run(const poet_op_args *args)
{
    const poet_leaky_relu_params *p = (const poet_leaky_relu_params *)args->params;
    const float slope = poet_from_bits(p->slope_f32);
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = x[i] > 0.0f ? x[i] : x[i] * slope;
    }
    return POET_OK;
}
