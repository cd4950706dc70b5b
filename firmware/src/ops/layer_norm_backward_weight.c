/* SPDX-License-Identifier: Apache-2.0 */
/* ggamma = sum over rows of gy * (x - mean) * invstd, gbeta = sum over rows of gy. */
#include "../kernels/shape.h"

int poet_layer_norm_backward_weight_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("ab,ab,a,a>b,b", params, sizes);
}

int poet_layer_norm_backward_weight_run(const poet_op_args *args)
{
    const poet_layer_norm_backward_weight_params *p = (const poet_layer_norm_backward_weight_params *)args->params;
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    const float *means = args->inputs[2];
    const float *invstds = args->inputs[3];
    float *ggamma = args->outputs[0];
    float *gbeta = args->outputs[1];
    for (int32_t n = 0; n < p->n; n++) {
        ggamma[n] = 0.0f;
        gbeta[n] = 0.0f;
    }
    for (int32_t m = 0; m < p->m; m++, gy += p->n, x += p->n) {
        for (int32_t n = 0; n < p->n; n++) {
            ggamma[n] += gy[n] * ((x[n] - means[m]) * invstds[m]);
            gbeta[n] += gy[n];
        }
    }
    return POET_OK;
}
