/* SPDX-License-Identifier: Apache-2.0 */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_scale_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_scale_params *p = (const poet_scale_params *)params;
    return p->divisor < 1 ? POET_E_ARGUMENT : poet_elementwise_sizes(p->size, 1, sizes);
}

int poet_scale_run(const poet_op_args *args)
{
    const poet_scale_params *p = (const poet_scale_params *)args->params;
    const float factor = poet_from_nano(p->factor_nano) / (float)p->divisor;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = x[i] * factor;
    }
    return POET_OK;
}
