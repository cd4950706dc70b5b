/* SPDX-License-Identifier: Apache-2.0 */
/* y[m,n] = a[m,n] + b[n]: a bias, or a position's embedding, to every row. */
#include "../kernels/shape.h"

int poet_add_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("ab,b>ab", params, sizes);
}

int poet_add_rows_run(const poet_op_args *args)
{
    const poet_add_rows_params *p = (const poet_add_rows_params *)args->params;
    const float *a = args->inputs[0];
    const float *b = args->inputs[1];
    float *y = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++) {
        for (int32_t n = 0; n < p->n; n++) {
            *y++ = *a++ + b[n];
        }
    }
    return POET_OK;
}
