/* SPDX-License-Identifier: Apache-2.0 */
/* Per row: y = x - max - log(sum of exp(x - max)). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_log_softmax_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("ab>ab", params, sizes);
}

int poet_log_softmax_run(const poet_op_args *args)
{
    const poet_log_softmax_params *p = (const poet_log_softmax_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++, x += p->n, y += p->n) {
        const float most = poet_greatest(x, p->n);
        float sum = 0.0f;
        for (int32_t n = 0; n < p->n; n++) {
            sum += poet_exp(x[n] - most);
        }
        const float log_sum = poet_log(sum);
        for (int32_t n = 0; n < p->n; n++) {
            y[n] = (x[n] - most) - log_sum;
        }
    }
    return POET_OK;
}
