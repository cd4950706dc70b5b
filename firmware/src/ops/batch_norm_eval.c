/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation in evaluation mode, with the running statistics: per channel,
 * y = (x - mean) * invstd * gamma + beta, with invstd = 1 / sqrt(variance + eps). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_batch_norm_eval_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_batch_norm_eval_params *p = (const poet_batch_norm_eval_params *)params;
    return p->eps_nano < 0 ? POET_E_ARGUMENT : poet_sizes_read("abc,b,b,b,b>abc", params, sizes);
}

int poet_batch_norm_eval_run(const poet_op_args *args)
{
    const poet_batch_norm_eval_params *p = (const poet_batch_norm_eval_params *)args->params;
    const float eps = poet_from_nano(p->eps_nano);
    const float *gamma = args->inputs[1];
    const float *beta = args->inputs[2];
    const float *means = args->inputs[3];
    const float *variances = args->inputs[4];
    for (int32_t c = 0; c < p->c; c++) {
        const float *x = (const float *)args->inputs[0] + c * p->size;
        float *y = (float *)args->outputs[0] + c * p->size;
        const float mean = means[c];
        const float factor = gamma[c] / poet_sqrt(variances[c] + eps);
        const float shift = beta[c];
        for (int32_t n = 0; n < p->n; n++, x += p->c * p->size, y += p->c * p->size) {
            for (int32_t i = 0; i < p->size; i++) {
                y[i] = (x[i] - mean) * factor + shift;
            }
        }
    }
    return POET_OK;
}
