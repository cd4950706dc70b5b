/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent without momentum, in place: param -= learning rate * grad. */
#include "shape.h"

int poet_sgd_sizes(const int32_t *params, poet_sizes *sizes)
{
    const int status = poet_elementwise_sizes(params[0], 2, sizes);
    if (status == POET_OK) {
        sizes->in_place = 1;
    }
    return status;
}

int poet_sgd_run(const poet_op_args *args)
{
    const poet_sgd_params *p = (const poet_sgd_params *)args->params;
    const float *gradient = args->inputs[0];
    const float *before = args->inputs[1];
    float *after = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        after[i] = before[i] - args->learning_rate * gradient[i];
    }
    return POET_OK;
}
