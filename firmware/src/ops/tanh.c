/* SPDX-License-Identifier: Apache-2.0 */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(tanh, 1)

int poet_tanh_run(const poet_op_args *args)
{
    const poet_tanh_params *p = (const poet_tanh_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = poet_hyperbolic_tangent(x[i]);
    }
    return POET_OK;
}
