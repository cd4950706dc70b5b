/* SPDX-License-Identifier: Apache-2.0 */
/* gx[m,v,i] = sum of gy[m,d,i] over the d with index[m,d,i] = v that are not ignored, in the order of d. */
#include "../kernels/shape.h"

int poet_gather_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_gather_backward_params *p = (const poet_gather_backward_params *)params;
    const int status = (p->ignores & ~1) != 0 ? POET_E_ARGUMENT : poet_sizes_read("acd,acd>abd", params, sizes);
    return poet_sizes_index(status, p->v, sizes);
}

int poet_gather_backward_run(const poet_op_args *args)
{
    const poet_gather_backward_params *p = (const poet_gather_backward_params *)args->params;
    const float *gy = args->inputs[0];
    const int32_t *index = args->inputs[1];
    float *gx = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++, gx += p->v * p->size) {
        for (int32_t i = 0; i < p->v * p->size; i++) {
            gx[i] = 0.0f;
        }
        for (int32_t d = 0; d < p->d; d++) {
            for (int32_t i = 0; i < p->size; i++, index++, gy++) {
                if (p->ignores && *index == p->ignored) {
                    continue;
                }
                if (*index < 0 || *index >= p->v) {
                    return POET_E_ARGUMENT;
                }
                gx[*index * p->size + i] += *gy;
            }
        }
    }
    return POET_OK;
}
