/* SPDX-License-Identifier: Apache-2.0 */
/* y = x * (x + 3) / 6 between -3 and 3, 0 below, x above. */
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(hardswish, 1)

int poet_hardswish_run(const poet_op_args *args)
{
    const poet_hardswish_params *p = (const poet_hardswish_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        if (x[i] <= -3.0f) {
            y[i] = 0.0f;
        } else {
            y[i] = x[i] >= 3.0f ? x[i] : x[i] * (x[i] + 3.0f) / 6.0f;
        }
    }
    return POET_OK;
}
