/* SPDX-License-Identifier: Apache-2.0 */
/* Per row: y = exp(x - max) / sum of exp(x - max). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_softmax_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("ab>ab", params, sizes);
}

int poet_softmax_run(const poet_op_args *args)
{
    const poet_softmax_params *p = (const poet_softmax_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++, x += p->n, y += p->n) {
        const float most = poet_greatest(x, p->n);
        float sum = 0.0f;
        for (int32_t n = 0; n < p->n; n++) {
            y[n] = poet_exp(x[n] - most);
            sum += y[n];
        }
        const float share = 1.0f / sum;
        for (int32_t n = 0; n < p->n; n++) {
            y[n] *= share;
        }
    }
    return POET_OK;
}
