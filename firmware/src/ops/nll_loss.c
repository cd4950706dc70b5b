/* SPDX-License-Identifier: Apache-2.0 */
/* Negative log-likelihood: loss = -(sum over rows of logp[row, target[row]]) / m. */
#include "../kernels/shape.h"

int poet_nll_loss_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_index(poet_sizes_read("ab,a>1", params, sizes), params[1], sizes);
}

int poet_nll_loss_run(const poet_op_args *args)
{
    const poet_nll_loss_params *p = (const poet_nll_loss_params *)args->params;
    const float *log_probability = args->inputs[0];
    const int32_t *target = args->inputs[1];
    float *loss = args->outputs[0];
    float sum = 0.0f;
    for (int32_t m = 0; m < p->m; m++) {
        if (target[m] < 0 || target[m] >= p->n) {
            return POET_E_ARGUMENT;
        }
        sum += log_probability[m * p->n + target[m]];
    }
    *loss = -sum / (float)p->m;
    return POET_OK;
}
