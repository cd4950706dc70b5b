/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gy * (x / 3 + 1/2) between -3 and 3, 0 below, gy above. */
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(hardswish_backward, 2)

int poet_hardswish_backward_run(const poet_op_args *args)
{
    const poet_hardswish_backward_params *p = (const poet_hardswish_backward_params *)args->params;
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    float *gx = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        if (x[i] <= -3.0f) {
            gx[i] = 0.0f;
        } else {
            gx[i] = x[i] >= 3.0f ? gy[i] : gy[i] * (x[i] / 3.0f + 0.5f);
        }
    }
    return POET_OK;
}
