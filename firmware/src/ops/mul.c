/* SPDX-License-Identifier: Apache-2.0 */
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(mul, 2)

int poet_mul_run(const poet_op_args *args)
{
    const poet_mul_params *p = (const poet_mul_params *)args->params;
    const float *a = args->inputs[0];
    const float *b = args->inputs[1];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = a[i] * b[i];
    }
    return POET_OK;
}
