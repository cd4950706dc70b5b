/* SPDX-License-Identifier: Apache-2.0 */
/* Per channel: ggamma = sum of gy * (x - mean) * invstd, gbeta = sum of gy, with the running statistics. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_batch_norm_eval_backward_weight_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_batch_norm_eval_backward_weight_params *p = (const poet_batch_norm_eval_backward_weight_params *)params;
    return p->eps_nano < 0 ? POET_E_ARGUMENT : poet_sizes_read("abc,abc,b,b>b,b", params, sizes);
}

int poet_batch_norm_eval_backward_weight_run(const poet_op_args *args)
{
    const poet_batch_norm_eval_backward_weight_params *p =
        (const poet_batch_norm_eval_backward_weight_params *)args->params;
    const float eps = poet_from_nano(p->eps_nano);
    const float *means = args->inputs[2];
    const float *variances = args->inputs[3];
    float *ggamma = args->outputs[0];
    float *gbeta = args->outputs[1];
    for (int32_t c = 0; c < p->c; c++) {
        const float *gy = (const float *)args->inputs[0] + c * p->size;
        const float *x = (const float *)args->inputs[1] + c * p->size;
        const float mean = means[c];
        float sum = 0.0f;
        float product = 0.0f;
        for (int32_t n = 0; n < p->n; n++, gy += p->c * p->size, x += p->c * p->size) {
            float image_sum = 0.0f; /* summed by image first, which rounds less than one long sum */
            float image_product = 0.0f;
            for (int32_t i = 0; i < p->size; i++) {
                image_sum += gy[i];
                image_product += gy[i] * (x[i] - mean);
            }
            sum += image_sum;
            product += image_product;
        }
        ggamma[c] = product / poet_sqrt(variances[c] + eps);
        gbeta[c] = sum;
    }
    return POET_OK;
}
