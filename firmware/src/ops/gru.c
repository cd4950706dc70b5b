/* SPDX-License-Identifier: Apache-2.0 */
/* Gates r and z of each step are sums that begin with x and the bias, over the state before, and so is what r is
 * multiplied with, without x.
 *     n = tanh(x + r * hidden);  y = (1 - z) * n + z * h
 */
#include "../kernels/mathematics.h"
#include "recurrent.h"

int poet_gru_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_gru_params *p = (const poet_gru_params *)params;
    return (p->reverse & ~1) != 0 ? POET_E_ARGUMENT : poet_sizes_read("abc3,3cc,e?3c,bc>abc3,abc,abc", params, sizes);
}

/* One sample's sums begin. */
static void begin(int32_t h, const float *bias, float *row, float *hidden)
{
    if (bias == NULL) {
        (void)poet_clear(hidden, h);
        return;
    }
    for (int32_t i = 0; i < 2 * h; i++) {
        row[i] += bias[i];
    }
    (void)poet_copy(hidden, bias + 2 * h, h);
}

static void activate(int32_t h, float *row, const float *hidden, const float *before, float *y)
{
    const float *const z = row + h;
    float *const n = row + 2 * h;
    poet_logistic_each(row, row, 2 * h);
    for (int32_t i = 0; i < h; i++) {
        n[i] = n[i] + row[i] * hidden[i];
    }
    poet_hyperbolic_tangent_each(n, n, h);
    for (int32_t i = 0; i < h; i++) {
        y[i] = (1.0f - z[i]) * n[i] + z[i] * before[i];
    }
}

int poet_gru_run(const poet_op_args *args)
{
    const poet_gru_params *p = (const poet_gru_params *)args->params;
    const int32_t h = p->h;
    const int32_t state = p->n * h;
    const poet_product two = poet_states_by_weights(p->n, h, 2 * h, 3 * h);
    const poet_product third = poet_states_by_weights(p->n, h, h, h);
    const float *w = args->inputs[1];
    const void *const *more = args->inputs + 2;
    const float *bias = poet_next_input(&more, p->bias);
    const float *before = *more;
    float *gates = poet_in_place(args, p->s * state * 3);
    for (int32_t t = 0; t < p->s; t++) {
        const int32_t at = poet_step_at(t, p->s, p->reverse) * state;
        float *rows = gates + 3 * at;
        float *hidden = (float *)args->outputs[1] + at;
        float *y = (float *)args->outputs[2] + at;
        for (int32_t i = 0; i < state; i += h) {
            begin(h, bias, rows + 3 * i, hidden + i);
        }
        poet_product_add(&two, before, w, rows);
        poet_product_add(&third, before, w + 2 * h * h, hidden);
        for (int32_t i = 0; i < state; i += h) {
            activate(h, rows + 3 * i, hidden + i, before + i, y + i);
        }
        before = y;
    }
    return POET_OK;
}
