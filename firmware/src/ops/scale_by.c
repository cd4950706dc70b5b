/* SPDX-License-Identifier: Apache-2.0 */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(scale_by, 1)

int poet_scale_by_run(const poet_op_args *args)
{
    const poet_scale_by_params *p = (const poet_scale_by_params *)args->params;
    const float factor = poet_from_bits(p->factor_f32);
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = x[i] * factor;
    }
    return POET_OK;
}
