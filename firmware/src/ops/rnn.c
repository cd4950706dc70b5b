/* SPDX-License-Identifier: Apache-2.0 */
/* y = tanh(x + w h), or ReLU of it; the sums begin with x. */
#include "../kernels/mathematics.h"
#include "recurrent.h"

int poet_rnn_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_rnn_params *p = (const poet_rnn_params *)params;
    return ((p->reverse | p->relu) & ~1) != 0 ? POET_E_ARGUMENT : poet_sizes_read("abc,cc,bc>abc", params, sizes);
}

int poet_rnn_run(const poet_op_args *args)
{
    const poet_rnn_params *p = (const poet_rnn_params *)args->params;
    const int32_t state = p->n * p->h;
    const poet_product product = poet_states_by_weights(p->n, p->h, p->h, p->h);
    const float *before = args->inputs[2];
    float *y = poet_in_place(args, p->s * state);
    for (int32_t t = 0; t < p->s; t++) {
        float *rows = y + poet_step_at(t, p->s, p->reverse) * state;
        poet_product_add(&product, before, args->inputs[1], rows);
        if (!p->relu) {
            poet_hyperbolic_tangent_each(rows, rows, state);
        }
        for (int32_t i = 0; p->relu && i < state; i++) {
            rows[i] = rows[i] <= 0.0f ? 0.0f : rows[i];
        }
        before = rows;
    }
    return POET_OK;
}
