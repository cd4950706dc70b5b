/* SPDX-License-Identifier: Apache-2.0 */
/* Per channel: gx = gy * gamma * invstd, with invstd = 1 / sqrt(running variance + eps). */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_batch_norm_eval_backward_input_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_batch_norm_eval_backward_input_params *p = (const poet_batch_norm_eval_backward_input_params *)params;
    return p->eps_nano < 0 ? POET_E_ARGUMENT : poet_sizes_read("abc,b,b>abc", params, sizes);
}

int poet_batch_norm_eval_backward_input_run(const poet_op_args *args)
{
    const poet_batch_norm_eval_backward_input_params *p =
        (const poet_batch_norm_eval_backward_input_params *)args->params;
    const float eps = poet_from_nano(p->eps_nano);
    const float *gamma = args->inputs[1];
    const float *variances = args->inputs[2];
    for (int32_t c = 0; c < p->c; c++) {
        const float *gy = (const float *)args->inputs[0] + c * p->size;
        float *gx = (float *)args->outputs[0] + c * p->size;
        const float factor = gamma[c] / poet_sqrt(variances[c] + eps);
        for (int32_t n = 0; n < p->n; n++, gy += p->c * p->size, gx += p->c * p->size) {
            for (int32_t i = 0; i < p->size; i++) {
                gx[i] = gy[i] * factor;
            }
        }
    }
    return POET_OK;
}
