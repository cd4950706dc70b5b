/* SPDX-License-Identifier: Apache-2.0 */
/* Per channel, with z = (x - mean) * invstd: gbeta = sum of gy, ggamma = sum of gy * z, and
 * gx = gamma * invstd * (gy - gbeta / count - z * ggamma / count). The three share their sums, so they are one
 * operator. */
#include "shape.h"

int poet_batch_norm_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_batch_norm_backward_params *p = (const poet_batch_norm_backward_params *)params;
    const uint32_t bytes = 4 * poet_count(p->n, p->c, p->size, 1);
    if (bytes == 0) {
        return POET_E_ARGUMENT;
    }
    const uint32_t c_bytes = 4 * (uint32_t)p->c;
    *sizes = (poet_sizes){
        .inputs = 5,
        .outputs = 3,
        .input_bytes = {bytes, bytes, c_bytes, c_bytes, c_bytes},
        .output_bytes = {bytes, c_bytes, c_bytes},
    };
    return POET_OK;
}

int poet_batch_norm_backward_run(const poet_op_args *args)
{
    const poet_batch_norm_backward_params *p = (const poet_batch_norm_backward_params *)args->params;
    const float *gamma = args->inputs[2];
    const float *means = args->inputs[3];
    const float *invstds = args->inputs[4];
    float *ggamma = args->outputs[1];
    float *gbeta = args->outputs[2];
    const int32_t step = p->c * p->size;
    const float count = (float)(p->n * p->size);
    for (int32_t c = 0; c < p->c; c++) {
        const float *gy = (const float *)args->inputs[0] + c * p->size;
        const float *x = (const float *)args->inputs[1] + c * p->size;
        float *gx = (float *)args->outputs[0] + c * p->size;
        const float mean = means[c];
        const float invstd = invstds[c];
        float sum = 0.0f;
        float product = 0.0f;
        for (int32_t n = 0; n < p->n; n++) {
            float image_sum = 0.0f;
            float image_product = 0.0f;
            for (int32_t i = n * step; i < n * step + p->size; i++) {
                image_sum += gy[i];
                image_product += gy[i] * ((x[i] - mean) * invstd);
            }
            sum += image_sum;
            product += image_product;
        }
        const float factor = gamma[c] * invstd;
        const float mean_gradient = sum / count;
        const float mean_product = product / count;
        for (int32_t n = 0; n < p->n; n++) {
            for (int32_t i = n * step; i < n * step + p->size; i++) {
                gx[i] = factor * (gy[i] - mean_gradient - (x[i] - mean) * invstd * mean_product);
            }
        }
        ggamma[c] = product;
        gbeta[c] = sum;
    }
    return POET_OK;
}
