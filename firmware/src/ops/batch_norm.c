/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation in training mode, with the batch's own statistics: per channel,
 * y = (x - mean) * invstd * gamma + beta, with invstd = 1 / sqrt(variance + eps) and the biased variance.
 * It changes nothing but its outputs, so that it can be recomputed; batch_norm_update moves the running statistics. */
#include "mathematics.h"
#include "shape.h"

int poet_batch_norm_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_batch_norm_params *p = (const poet_batch_norm_params *)params;
    const uint32_t bytes = 4 * poet_count(p->n, p->c, p->size, 1);
    if (bytes == 0 || p->eps_nano < 0) {
        return POET_E_ARGUMENT;
    }
    const uint32_t c_bytes = 4 * (uint32_t)p->c;
    *sizes = (poet_sizes){
        .inputs = 3,
        .outputs = 3,
        .input_bytes = {bytes, c_bytes, c_bytes},
        .output_bytes = {bytes, c_bytes, c_bytes},
    };
    return POET_OK;
}

static float mean_of_channel(const poet_batch_norm_params *p, const float *x)
{
    float sum = 0.0f;
    for (int32_t n = 0; n < p->n; n++, x += p->c * p->size) {
        float image = 0.0f; /* summed by image first, which rounds less than one long sum */
        for (int32_t i = 0; i < p->size; i++) {
            image += x[i];
        }
        sum += image;
    }
    return sum / (float)(p->n * p->size);
}

static float variance_of_channel(const poet_batch_norm_params *p, const float *x, float mean)
{
    float sum = 0.0f;
    for (int32_t n = 0; n < p->n; n++, x += p->c * p->size) {
        float image = 0.0f;
        for (int32_t i = 0; i < p->size; i++) {
            image += (x[i] - mean) * (x[i] - mean);
        }
        sum += image;
    }
    return sum / (float)(p->n * p->size);
}

int poet_batch_norm_run(const poet_op_args *args)
{
    const poet_batch_norm_params *p = (const poet_batch_norm_params *)args->params;
    const float eps = poet_from_nano(p->eps_nano);
    const float *gamma = args->inputs[1];
    const float *beta = args->inputs[2];
    float *means = args->outputs[1];
    float *invstds = args->outputs[2];
    for (int32_t c = 0; c < p->c; c++) {
        const float *x = (const float *)args->inputs[0] + c * p->size;
        float *y = (float *)args->outputs[0] + c * p->size;
        const float mean = mean_of_channel(p, x);
        const float invstd = 1.0f / poet_sqrt(variance_of_channel(p, x, mean) + eps);
        const float scale = gamma[c];
        const float shift = beta[c];
        for (int32_t n = 0; n < p->n; n++, x += p->c * p->size, y += p->c * p->size) {
            for (int32_t i = 0; i < p->size; i++) {
                y[i] = (x[i] - mean) * invstd * scale + shift;
            }
        }
        means[c] = mean;
        invstds[c] = invstd;
    }
    return POET_OK;
}
