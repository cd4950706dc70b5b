/* SPDX-License-Identifier: Apache-2.0 */
/* gx = gy where x is between the limits, else 0. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(hardtanh_backward, 2)

int poet_hardtanh_backward_run(const poet_op_args *args)
{
    const poet_hardtanh_backward_params *p = (const poet_hardtanh_backward_params *)args->params;
    const float low = poet_from_bits(p->low_f32);
    const float high = poet_from_bits(p->high_f32);
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    float *gx = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        gx[i] = x[i] <= low || x[i] >= high ? 0.0f : gy[i];
    }
    return POET_OK;
}
