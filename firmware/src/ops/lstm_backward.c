/* SPDX-License-Identifier: Apache-2.0 */
/* From the last step to the first. With u = tanh(c), and gh and gc from the step after:
 *     d = gc + (gy + gh) * o * (1 - u * u);  gc = d * f;  gh = the gates' gradients by w
 */
#include "../kernels/mathematics.h"
#include "recurrent.h"

int poet_lstm_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_lstm_backward_params *p = (const poet_lstm_backward_params *)params;
    return (p->reverse & ~1) != 0 ? POET_E_ARGUMENT
                                  : poet_sizes_read("abc4,abc,4cc,bc,e?abc,f?bc,g?bc>abc4,bc,bc", params, sizes);
}

/* One sample's: its row of gates becomes their gradients. */
static void differentiate(int32_t h, float *row, const float *cells, const float *before, const float *gh, float *gc)
{
    for (int32_t i = 0; i < h; i++) {
        const float in = row[i];
        const float forget = row[h + i];
        const float g = row[2 * h + i];
        const float out = row[3 * h + i];
        const float u = poet_hyperbolic_tangent(cells[i]);
        const float up = gh[i];
        const float d = gc[i] + up * out * (1.0f - u * u);
        row[i] = d * g * (in * (1.0f - in));
        row[h + i] = d * before[i] * (forget * (1.0f - forget));
        row[2 * h + i] = d * in * (1.0f - g * g);
        row[3 * h + i] = up * u * (out * (1.0f - out));
        gc[i] = d * forget;
    }
}

int poet_lstm_backward_run(const poet_op_args *args)
{
    const poet_lstm_backward_params *p = (const poet_lstm_backward_params *)args->params;
    const int32_t h = p->h;
    const int32_t state = p->n * h;
    const poet_product product = poet_gradients_by_weights(p->n, h, 4 * h, 4 * h);
    const float *cells = args->inputs[1];
    const float *w = args->inputs[2];
    const void *const *more = args->inputs + 4;
    const float *gy = poet_next_input(&more, p->gy);
    float *gx = poet_in_place(args, p->s * state * 4);
    float *gh = args->outputs[1];
    float *gc = args->outputs[2];
    poet_begin_gradient(gh, poet_next_input(&more, p->gh), state);
    poet_begin_gradient(gc, poet_next_input(&more, p->gc), state);
    for (int32_t t = p->s - 1; t >= 0; t--) {
        const int32_t at = poet_step_at(t, p->s, p->reverse) * state;
        const float *before = t == 0 ? args->inputs[3] : cells + poet_step_at(t - 1, p->s, p->reverse) * state;
        poet_add_gradient(gh, gy, at, state);
        for (int32_t i = 0; i < state; i += h) {
            differentiate(h, gx + 4 * (at + i), cells + at + i, before + i, gh + i, gc + i);
        }
        poet_product_compute(&product, gx + 4 * at, w, gh);
    }
    return POET_OK;
}
