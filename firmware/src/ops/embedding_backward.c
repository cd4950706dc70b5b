/* gw[v] = sum of gy[m] over the m with tokens[m] = v, in the order of m. */
#include "shape.h"

int poet_embedding_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_embedding_backward_params *p = (const poet_embedding_backward_params *)params;
    const uint32_t y = poet_count(p->m, p->d, 1, 1);
    const uint32_t w = poet_count(p->v, p->d, 1, 1);
    if (y == 0 || w == 0) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {4 * y, 4 * (uint32_t)p->m},
        .output_bytes = {4 * w},
        .index_input = 1,
        .index_bytes = 4,
        .index_bound = (uint32_t)p->v,
    };
    return POET_OK;
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
