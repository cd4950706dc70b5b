/* SPDX-License-Identifier: Apache-2.0 */
/* y[m] = w[tokens[m]]. */
#include "../kernels/shape.h"

int poet_embedding_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_embedding_params *p = (const poet_embedding_params *)params;
    const uint32_t y = poet_count(p->m, p->d, 1, 1);
    const uint32_t w = poet_count(p->v, p->d, 1, 1);
    if (y == 0 || w == 0) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {4 * w, 4 * (uint32_t)p->m},
        .output_bytes = {4 * y},
        .index_input = 1,
        .index_bytes = 4,
        .index_bound = (uint32_t)p->v,
    };
    return POET_OK;
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
