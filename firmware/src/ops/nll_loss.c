/* SPDX-License-Identifier: Apache-2.0 */
/* Negative log-likelihood: loss = -(sum over rows of logp[row, target[row]]) / m. */
#include "../kernels/shape.h"

int poet_nll_loss_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_nll_loss_params *p = (const poet_nll_loss_params *)params;
    const int status = poet_rows_sizes(p->m, p->n, 1, sizes);
    if (status == POET_OK) {
        sizes->inputs = 2;
        sizes->input_bytes[1] = 4 * (uint32_t)p->m;
        sizes->index_input = 1;
        sizes->index_bytes = 4;
        sizes->index_bound = (uint32_t)p->n;
        sizes->output_bytes[0] = 4;
    }
    return status;
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
