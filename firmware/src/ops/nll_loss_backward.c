/* SPDX-License-Identifier: Apache-2.0 */
/* -gloss / m at each row's target, 0 elsewhere. */
#include "../kernels/shape.h"

int poet_nll_loss_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_index(poet_sizes_read("1,a>ab", params, sizes), params[1], sizes);
}

int poet_nll_loss_backward_run(const poet_op_args *args)
{
    const poet_nll_loss_backward_params *p = (const poet_nll_loss_backward_params *)args->params;
    const float *loss_gradient = args->inputs[0];
    const int32_t *target = args->inputs[1];
    float *gradient = args->outputs[0];
    const float share = -*loss_gradient / (float)p->m;
    for (int32_t m = 0; m < p->m; m++, gradient += p->n) {
        if (target[m] < 0 || target[m] >= p->n) {
            return POET_E_ARGUMENT;
        }
        for (int32_t n = 0; n < p->n; n++) {
            gradient[n] = n == target[m] ? share : 0.0f;
        }
    }
    return POET_OK;
}
