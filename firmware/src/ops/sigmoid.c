/* SPDX-License-Identifier: Apache-2.0 */
/* y = 1 / (1 + exp(-x)). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(sigmoid, 1)

int poet_sigmoid_run(const poet_op_args *args)
{
    const poet_sigmoid_params *p = (const poet_sigmoid_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = poet_logistic(x[i]);
    }
    return POET_OK;
}
