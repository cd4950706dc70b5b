/* SPDX-License-Identifier: Apache-2.0 */
/* From the last step to the first: gx = (gy + gh) * (1 - y * y), of ReLU where y is positive; gh = gx by w. */
#include "recurrent.h"

int poet_rnn_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_rnn_backward_params *p = (const poet_rnn_backward_params *)params;
    return ((p->reverse | p->relu) & ~1) != 0 ? POET_E_ARGUMENT
                                              : poet_sizes_read("abc,cc,f?abc,g?bc>abc,bc", params, sizes);
}

int poet_rnn_backward_run(const poet_op_args *args)
{
    const poet_rnn_backward_params *p = (const poet_rnn_backward_params *)args->params;
    const int32_t state = p->n * p->h;
    const poet_product product = poet_gradients_by_weights(p->n, p->h, p->h, p->h);
    const void *const *more = args->inputs + 2;
    const float *gy = poet_next_input(&more, p->gy);
    float *gh = args->outputs[1];
    poet_begin_gradient(gh, poet_next_input(&more, p->gh), state);
    for (int32_t t = p->s - 1; t >= 0; t--) {
        const int32_t at = poet_step_at(t, p->s, p->reverse) * state;
        const float *y = (const float *)args->inputs[0] + at;
        float *gx = (float *)args->outputs[0] + at;
        poet_add_gradient(gh, gy, at, state);
        for (int32_t i = 0; i < state; i++) {
            gx[i] = !p->relu ? gh[i] * (1.0f - y[i] * y[i]) : y[i] > 0.0f ? gh[i] : 0.0f;
        }
        poet_product_compute(&product, gx, args->inputs[1], gh);
    }
    return POET_OK;
}
