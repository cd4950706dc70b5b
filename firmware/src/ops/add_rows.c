/* SPDX-License-Identifier: Apache-2.0 */
/* y[m,n] = a[m,n] + b[n]: a bias, or a position's embedding, to every row. */
#include "../kernels/shape.h"

int poet_add_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_add_rows_params *p = (const poet_add_rows_params *)params;
    const int status = poet_rows_sizes(p->m, p->n, 2, sizes);
    if (status == POET_OK) {
        sizes->input_bytes[1] = 4 * (uint32_t)p->n;
    }
    return status;
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
