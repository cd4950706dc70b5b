/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent with momentum, in place, as in PyTorch: velocity = momentum * velocity + grad, then
 * param -= learning rate * velocity. A velocity of zeros begins. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_sgd_momentum_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_sgd_momentum_params *p = (const poet_sgd_momentum_params *)params;
    return p->momentum_nano < 0 ? POET_E_ARGUMENT : poet_sizes_read("a,a,a=a,a", params, sizes);
}

int poet_sgd_momentum_run(const poet_op_args *args)
{
    const poet_sgd_momentum_params *p = (const poet_sgd_momentum_params *)args->params;
    const float momentum = poet_from_nano(p->momentum_nano);
    const float *gradient = args->inputs[0];
    const float *before = args->inputs[1];
    const float *velocity_before = args->inputs[2];
    float *after = args->outputs[0];
    float *velocity = args->outputs[1];
    for (int32_t i = 0; i < p->size; i++) {
        velocity[i] = momentum * velocity_before[i] + gradient[i];
        after[i] = before[i] - args->learning_rate * velocity[i];
    }
    return POET_OK;
}
