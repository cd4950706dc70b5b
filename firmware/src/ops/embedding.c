/* SPDX-License-Identifier: Apache-2.0 */
/* y[m] = w[tokens[m]]. */
#include "../kernels/shape.h"

int poet_embedding_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_index(poet_sizes_read("bc,a>ac", params, sizes), params[1], sizes);
}

int poet_embedding_run(const poet_op_args *args)
{
    const poet_embedding_params *p = (const poet_embedding_params *)args->params;
    const float *w = args->inputs[0];
    const int32_t *tokens = args->inputs[1];
    float *y = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++) {
        if (tokens[m] < 0 || tokens[m] >= p->v) {
            return POET_E_ARGUMENT;
        }
        const float *row = w + tokens[m] * p->d;
        for (int32_t d = 0; d < p->d; d++) {
            *y++ = row[d];
        }
    }
    return POET_OK;
}
