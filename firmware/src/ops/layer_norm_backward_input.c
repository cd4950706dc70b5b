/* SPDX-License-Identifier: Apache-2.0 */
/* Per row, with z = (x - mean) * invstd and g = gy * gamma: gx = invstd * (g - mean of g - z * mean of g * z). */
#include "../kernels/shape.h"

int poet_layer_norm_backward_input_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("ab,ab,b,a,a>ab", params, sizes);
}

int poet_layer_norm_backward_input_run(const poet_op_args *args)
{
    const poet_layer_norm_backward_input_params *p = (const poet_layer_norm_backward_input_params *)args->params;
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    const float *gamma = args->inputs[2];
    const float *means = args->inputs[3];
    const float *invstds = args->inputs[4];
    float *gx = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++, gy += p->n, x += p->n, gx += p->n) {
        const float mean = means[m];
        const float invstd = invstds[m];
        float sum = 0.0f;
        float product = 0.0f;
        for (int32_t n = 0; n < p->n; n++) {
            const float g = gy[n] * gamma[n];
            sum += g;
            product += g * ((x[n] - mean) * invstd);
        }
        const float mean_g = sum / (float)p->n;
        const float mean_product = product / (float)p->n;
        for (int32_t n = 0; n < p->n; n++) {
            gx[n] = invstd * (gy[n] * gamma[n] - mean_g - (x[n] - mean) * invstd * mean_product);
        }
    }
    return POET_OK;
}
