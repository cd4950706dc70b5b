/* SPDX-License-Identifier: Apache-2.0 */
/* y[n] = sum over m of x[m,n]: the gradient of a bias that was added to every row. */
#include "../kernels/shape.h"

int poet_sum_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("ab>b", params, sizes);
}

int poet_sum_rows_run(const poet_op_args *args)
{
    const poet_sum_rows_params *p = (const poet_sum_rows_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t n = 0; n < p->n; n++) {
        y[n] = x[n];
    }
    for (int32_t m = 1; m < p->m; m++) {
        x += p->n;
        for (int32_t n = 0; n < p->n; n++) {
            y[n] += x[n];
        }
    }
    return POET_OK;
}
