/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent with all that torch.optim.SGD has, in place. The gradient is clipped; then
 *     grad += decay * param;  velocity = momentum * velocity + grad
 *     param -= learning rate * (nesterov ? grad + momentum * velocity : velocity)
 * A velocity of zeros begins. Without momentum there is none, and the gradient stands for it. */
#include "../kernels/descent.h"
#include "../kernels/shape.h"

int poet_sgd_general_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_sgd_general_params *p = (const poet_sgd_general_params *)params;
    if (!poet_is_descent(&(poet_descent){p->momentum_nano, p->decay_f32, p->clip_f32, p->nesterov, 0, 0})) {
        return POET_E_ARGUMENT;
    }
    const bool has_velocity = p->momentum_nano > 0;
    const int status = poet_elementwise_sizes(p->size, has_velocity ? 3 : 2, sizes);
    if (status == POET_OK) {
        sizes->outputs = has_velocity ? 2 : 1;
        sizes->output_bytes[1] = has_velocity ? sizes->output_bytes[0] : 0;
        sizes->in_place = 1;
    }
    return status;
}

static void descend(const poet_op_args *args, int32_t size, const poet_gradient_rule *rule)
{
    const float *gradient = args->inputs[0];
    const float *before = args->inputs[1];
    float *after = args->outputs[0];
    for (int32_t i = 0; i < size; i++) {
        after[i] = before[i] - args->learning_rate * poet_ruled_gradient(rule, gradient[i], before[i]);
    }
}

int poet_sgd_general_run(const poet_op_args *args)
{
    const poet_sgd_general_params *p = (const poet_sgd_general_params *)args->params;
    const poet_gradient_rule rule = poet_gradient_rule_of(p->clip_f32, p->decay_f32);
    if (p->momentum_nano == 0) {
        descend(args, p->size, &rule);
        return POET_OK;
    }
    const float momentum = poet_from_nano(p->momentum_nano);
    const float *gradient = args->inputs[0];
    const float *before = args->inputs[1];
    const float *velocity_before = args->inputs[2];
    float *after = args->outputs[0];
    float *velocity = args->outputs[1];
    for (int32_t i = 0; i < p->size; i++) {
        const float g = poet_ruled_gradient(&rule, gradient[i], before[i]);
        const float v = momentum * velocity_before[i] + g;
        velocity[i] = v;
        after[i] = before[i] - args->learning_rate * (p->nesterov == 1 ? g + momentum * v : v);
    }
    return POET_OK;
}
