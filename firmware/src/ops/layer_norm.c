/* SPDX-License-Identifier: Apache-2.0 */
/* Per row: y = (x - mean) * invstd * gamma + beta, with invstd = 1 / sqrt(variance + eps). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_layer_norm_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_layer_norm_params *p = (const poet_layer_norm_params *)params;
    return p->eps_nano < 0 ? POET_E_ARGUMENT : poet_sizes_read("ab,b,b>ab,a,a", params, sizes);
}

int poet_layer_norm_run(const poet_op_args *args)
{
    const poet_layer_norm_params *p = (const poet_layer_norm_params *)args->params;
    const float eps = poet_from_nano(p->eps_nano);
    const float *x = args->inputs[0];
    const float *gamma = args->inputs[1];
    const float *beta = args->inputs[2];
    float *y = args->outputs[0];
    float *means = args->outputs[1];
    float *invstds = args->outputs[2];
    for (int32_t m = 0; m < p->m; m++, x += p->n, y += p->n) {
        float sum = 0.0f;
        for (int32_t n = 0; n < p->n; n++) {
            sum += x[n];
        }
        const float mean = sum / (float)p->n;
        float squares = 0.0f;
        for (int32_t n = 0; n < p->n; n++) {
            squares += (x[n] - mean) * (x[n] - mean);
        }
        const float invstd = 1.0f / poet_sqrt(squares / (float)p->n + eps);
        for (int32_t n = 0; n < p->n; n++) {
            y[n] = (x[n] - mean) * invstd * gamma[n] + beta[n];
        }
        means[m] = mean;
        invstds[m] = invstd;
    }
    return POET_OK;
}
