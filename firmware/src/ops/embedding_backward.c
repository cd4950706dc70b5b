/* SPDX-License-Identifier: Apache-2.0 */
/* gw[v] = sum of gy[m] over the m with tokens[m] = v, in the order of m. */
#include "../kernels/shape.h"

int poet_embedding_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_index(poet_sizes_read("ac,a>bc", params, sizes), params[1], sizes);
}

int poet_embedding_backward_run(const poet_op_args *args)
{
    const poet_embedding_backward_params *p = (const poet_embedding_backward_params *)args->params;
    const float *gy = args->inputs[0];
    const int32_t *tokens = args->inputs[1];
    float *gw = args->outputs[0];
    for (int32_t i = 0; i < p->v * p->d; i++) {
        gw[i] = 0.0f;
    }
    for (int32_t m = 0; m < p->m; m++) {
        if (tokens[m] < 0 || tokens[m] >= p->v) {
            return POET_E_ARGUMENT;
        }
        float *row = gw + tokens[m] * p->d;
        for (int32_t d = 0; d < p->d; d++) {
            row[d] += *gy++;
        }
    }
    return POET_OK;
}
