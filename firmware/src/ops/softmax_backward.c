/* SPDX-License-Identifier: Apache-2.0 */
/* Per row: gx = y * (gy - sum of gy * y). */
#include "../kernels/shape.h"

int poet_softmax_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("ab,ab>ab", params, sizes);
}

int poet_softmax_backward_run(const poet_op_args *args)
{
    const poet_softmax_backward_params *p = (const poet_softmax_backward_params *)args->params;
    const float *gy = args->inputs[0];
    const float *y = args->inputs[1];
    float *gx = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++, gy += p->n, y += p->n, gx += p->n) {
        float sum = 0.0f;
        for (int32_t n = 0; n < p->n; n++) {
            sum += gy[n] * y[n];
        }
        for (int32_t n = 0; n < p->n; n++) {
            gx[n] = y[n] * (gy[n] - sum);
        }
    }
    return POET_OK;
}
