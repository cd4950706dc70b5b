/* SPDX-License-Identifier: Apache-2.0 */
/* Adam as in torch.optim, in place. The gradient is clipped; then, with the step's factors (adam_factors.c),
 *     grad += decay * param
 *     exp_avg += (1 - beta1) * (grad - exp_avg);  exp_avg_sq = beta2 * exp_avg_sq + ((1 - beta2) * grad) * grad
 *     param = left * param - size * exp_avg / (sqrt(exp_avg_sq) + root * eps)
 * which is torch.optim's sum with one division less. AdamW has no decay here, but in `left`. Averages of zeros begin.
 */
#include "../kernels/descent.h"
#include "../kernels/shape.h"
#include "adam_factors.h"

int poet_adam_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_adam_params *p = (const poet_adam_params *)params;
    if (!poet_is_amount(p->eps_f32) || !poet_is_amount(p->decay_f32) || !poet_is_amount(p->clip_f32)) {
        return POET_E_ARGUMENT;
    }
    const int status = poet_elementwise_sizes(p->size, 5, sizes);
    if (status == POET_OK) {
        sizes->input_bytes[0] = sizeof(poet_adam_factors);
        sizes->outputs = 3;
        sizes->output_bytes[1] = sizes->output_bytes[0];
        sizes->output_bytes[2] = sizes->output_bytes[0];
        sizes->in_place = 1;
        sizes->not_negative = 1u << 4;
    }
    return status;
}

int poet_adam_run(const poet_op_args *args)
{
    const poet_adam_params *p = (const poet_adam_params *)args->params;
    const poet_gradient_rule rule = poet_gradient_rule_of(p->clip_f32, p->decay_f32);
    const poet_adam_factors f = *(const poet_adam_factors *)args->inputs[0];
    const float eps = f.root * poet_from_bits(p->eps_f32);
    const bool fades = f.left < 1.0f;
    const float *gradient = args->inputs[1];
    const float *before = args->inputs[2];
    const float *average_before = args->inputs[3];
    const float *squares_before = args->inputs[4];
    float *after = args->outputs[0];
    float *average = args->outputs[1];
    float *squares = args->outputs[2];
    for (int32_t i = 0; i < p->size; i++) {
        const float w = before[i];
        const float g = poet_ruled_gradient(&rule, gradient[i], w);
        const float m = average_before[i] + f.rest1 * (g - average_before[i]);
        const float v = f.beta2 * squares_before[i] + (f.rest2 * g) * g;
        average[i] = m;
        squares[i] = v;
        after[i] = (fades ? f.left * w : w) - f.size * m / (poet_sqrt(v) + eps);
    }
    return POET_OK;
}
