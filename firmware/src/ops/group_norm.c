/* SPDX-License-Identifier: Apache-2.0 */
/* Per sample and group of channels: y = (x - mean) * invstd * gamma + beta, with invstd = 1 / sqrt(variance + eps). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_group_norm_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_group_norm_params *p = (const poet_group_norm_params *)params;
    return p->g < 1 || p->c % p->g != 0 || p->eps_nano < 0 ? POET_E_ARGUMENT
                                                           : poet_sizes_read("abc,b,b>abc,ad,ad", params, sizes);
}

static float mean_of_group(const float *x, int32_t channels, int32_t size)
{
    float sum = 0.0f;
    for (int32_t c = 0; c < channels; c++, x += size) {
        float channel = 0.0f; /* summed by channel first, which rounds less than one long sum */
        for (int32_t i = 0; i < size; i++) {
            channel += x[i];
        }
        sum += channel;
    }
    return sum / (float)(channels * size);
}

static float variance_of_group(const float *x, int32_t channels, int32_t size, float mean)
{
    float sum = 0.0f;
    for (int32_t c = 0; c < channels; c++, x += size) {
        float channel = 0.0f;
        for (int32_t i = 0; i < size; i++) {
            channel += (x[i] - mean) * (x[i] - mean);
        }
        sum += channel;
    }
    return sum / (float)(channels * size);
}

int poet_group_norm_run(const poet_op_args *args)
{
    const poet_group_norm_params *p = (const poet_group_norm_params *)args->params;
    const int32_t channels = p->c / p->g;
    const float eps = poet_from_nano(p->eps_nano);
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    float *means = args->outputs[1];
    float *invstds = args->outputs[2];
    for (int32_t n = 0; n < p->n; n++) {
        const float *gamma = args->inputs[1];
        const float *beta = args->inputs[2];
        for (int32_t g = 0; g < p->g; g++) {
            const float mean = mean_of_group(x, channels, p->size);
            const float invstd = 1.0f / poet_sqrt(variance_of_group(x, channels, p->size, mean) + eps);
            for (int32_t c = 0; c < channels; c++, x += p->size, y += p->size, gamma++, beta++) {
                for (int32_t i = 0; i < p->size; i++) {
                    y[i] = (x[i] - mean) * invstd * *gamma + *beta;
                }
            }
            *means++ = mean;
            *invstds++ = invstd;
        }
    }
    return POET_OK;
}
