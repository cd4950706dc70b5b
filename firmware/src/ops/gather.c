/* SPDX-License-Identifier: Apache-2.0 */
/* y[m,d,i] = x[m, index[m,d,i], i]; with `ignores`, 0 where the index is `ignored`. */
#include "../kernels/shape.h"

int poet_gather_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_gather_params *p = (const poet_gather_params *)params;
    const int status = (p->ignores & ~1) != 0 ? POET_E_ARGUMENT : poet_sizes_read("abd,acd>acd", params, sizes);
    return poet_sizes_index(status, p->v, sizes);
}

int poet_gather_run(const poet_op_args *args)
{
    const poet_gather_params *p = (const poet_gather_params *)args->params;
    const float *x = args->inputs[0];
    const int32_t *index = args->inputs[1];
    float *y = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++, x += p->v * p->size) {
        for (int32_t d = 0; d < p->d; d++) {
            for (int32_t i = 0; i < p->size; i++, index++) {
                if (p->ignores && *index == p->ignored) {
                    *y++ = 0.0f;
                } else if (*index < 0 || *index >= p->v) {
                    return POET_E_ARGUMENT;
                } else {
                    *y++ = x[*index * p->size + i];
                }
            }
        }
    }
    return POET_OK;
}
