/* SPDX-License-Identifier: Apache-2.0 */
/* Moves a batch normalisation's running statistics towards a batch's, in place, once a step: as in PyTorch,
 * running = (1 - momentum) * running + momentum * batch's, with the unbiased variance. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

#define ONE_NANO 1000000000

int poet_batch_norm_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_batch_norm_update_params *p = (const poet_batch_norm_update_params *)params;
    return p->count < 2 || p->momentum_nano < 0 || p->momentum_nano > ONE_NANO || p->eps_nano < 0
               ? POET_E_ARGUMENT
               : poet_sizes_read("a,a,a,a=a,a", params, sizes);
}

int poet_batch_norm_update_run(const poet_op_args *args)
{
    const poet_batch_norm_update_params *p = (const poet_batch_norm_update_params *)args->params;
    const float momentum = poet_from_nano(p->momentum_nano);
    const float eps = poet_from_nano(p->eps_nano);
    const float unbiased = (float)p->count / (float)(p->count - 1);
    const float *mean = args->inputs[0];
    const float *invstd = args->inputs[1];
    const float *mean_before = args->inputs[2];
    const float *variance_before = args->inputs[3];
    float *running_mean = args->outputs[0];
    float *running_variance = args->outputs[1];
    for (int32_t c = 0; c < p->c; c++) {
        const float variance = 1.0f / (invstd[c] * invstd[c]) - eps;
        running_mean[c] = (1.0f - momentum) * mean_before[c] + momentum * mean[c];
        running_variance[c] = (1.0f - momentum) * variance_before[c] + momentum * (variance * unbiased);
    }
    return POET_OK;
}
