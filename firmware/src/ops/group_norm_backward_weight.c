/* SPDX-License-Identifier: Apache-2.0 */
/* Per channel: ggamma = sum of gy * (x - mean) * invstd, gbeta = sum of gy, with the statistics of sample and group. */
#include "../kernels/shape.h"

int poet_group_norm_backward_weight_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_group_norm_backward_weight_params *p = (const poet_group_norm_backward_weight_params *)params;
    return p->g < 1 || p->c % p->g != 0 ? POET_E_ARGUMENT : poet_sizes_read("abc,abc,ad,ad>b,b", params, sizes);
}

int poet_group_norm_backward_weight_run(const poet_op_args *args)
{
    const poet_group_norm_backward_weight_params *p = (const poet_group_norm_backward_weight_params *)args->params;
    const int32_t channels = p->c / p->g;
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    float *ggamma = args->outputs[0];
    float *gbeta = args->outputs[1];
    for (int32_t c = 0; c < p->c; c++) {
        ggamma[c] = 0.0f;
        gbeta[c] = 0.0f;
    }
    for (int32_t n = 0; n < p->n; n++) {
        const float *means = (const float *)args->inputs[2] + n * p->g;
        const float *invstds = (const float *)args->inputs[3] + n * p->g;
        for (int32_t c = 0; c < p->c; c++, gy += p->size, x += p->size) {
            const float mean = means[c / channels];
            const float invstd = invstds[c / channels];
            float sum = 0.0f;
            float product = 0.0f;
            for (int32_t i = 0; i < p->size; i++) {
                sum += gy[i];
                product += gy[i] * ((x[i] - mean) * invstd);
            }
            ggamma[c] += product;
            gbeta[c] += sum;
        }
    }
    return POET_OK;
}
