/* SPDX-License-Identifier: Apache-2.0 */
/* Per sample and group, with z = (x - mean) * invstd and g = gy * gamma:
 * gx = invstd * (g - mean of g - z * mean of g * z). */
#include "../kernels/shape.h"

int poet_group_norm_backward_input_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_group_norm_backward_input_params *p = (const poet_group_norm_backward_input_params *)params;
    return p->g < 1 || p->c % p->g != 0 ? POET_E_ARGUMENT : poet_sizes_read("abc,abc,b,ad,ad>abc", params, sizes);
}

int poet_group_norm_backward_input_run(const poet_op_args *args)
{
    const poet_group_norm_backward_input_params *p = (const poet_group_norm_backward_input_params *)args->params;
    const int32_t channels = p->c / p->g;
    const int32_t step = channels * p->size;
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    const float *means = args->inputs[3];
    const float *invstds = args->inputs[4];
    float *gx = args->outputs[0];
    for (int32_t group = 0; group < p->n * p->g; group++, gy += step, x += step, gx += step) {
        const float *gamma = (const float *)args->inputs[2] + group % p->g * channels;
        const float mean = means[group];
        const float invstd = invstds[group];
        float sum = 0.0f;
        float product = 0.0f;
        for (int32_t c = 0; c < channels; c++) {
            float channel_sum = 0.0f;
            float channel_product = 0.0f;
            for (int32_t i = c * p->size; i < (c + 1) * p->size; i++) {
                channel_sum += gy[i];
                channel_product += gy[i] * ((x[i] - mean) * invstd);
            }
            sum += channel_sum * gamma[c];
            product += channel_product * gamma[c];
        }
        const float mean_gradient = sum / (float)step;
        const float mean_product = product / (float)step;
        for (int32_t c = 0; c < channels; c++) {
            for (int32_t i = c * p->size; i < (c + 1) * p->size; i++) {
                gx[i] = invstd * (gy[i] * gamma[c] - mean_gradient - (x[i] - mean) * invstd * mean_product);
            }
        }
    }
    return POET_OK;
}
