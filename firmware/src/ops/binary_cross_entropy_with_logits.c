/* SPDX-License-Identifier: Apache-2.0 */
/* loss = mean of max(x, 0) - x target + log(1 + exp(-|x|)): the cross entropy of the sigmoid of x, without
 * overflow. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_binary_cross_entropy_with_logits_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("a,a>1", params, sizes);
}

int poet_binary_cross_entropy_with_logits_run(const poet_op_args *args)
{
    const poet_binary_cross_entropy_with_logits_params *p =
        (const poet_binary_cross_entropy_with_logits_params *)args->params;
    const float *x = args->inputs[0];
    const float *target = args->inputs[1];
    float *loss = args->outputs[0];
    float sum = 0.0f;
    for (int32_t i = 0; i < p->size; i++) {
        const float magnitude = x[i] < 0.0f ? -x[i] : x[i];
        const float above_zero = x[i] < 0.0f ? 0.0f : x[i];
        sum += (above_zero - x[i] * target[i]) + poet_log_one_plus(poet_exp(-magnitude));
    }
    *loss = sum / (float)p->size;
    return POET_OK;
}
