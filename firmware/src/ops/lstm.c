/* SPDX-License-Identifier: Apache-2.0 */
/* Gates i, f, g, o of each step are sums that begin with x, over the state before; then they are activated.
 *     c = f * c + i * g;  y = o * tanh(c)
 */
#include "../kernels/mathematics.h"
#include "recurrent.h"

int poet_lstm_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_lstm_params *p = (const poet_lstm_params *)params;
    return (p->reverse & ~1) != 0 ? POET_E_ARGUMENT : poet_sizes_read("abc4,4cc,bc,bc>abc4,abc,abc", params, sizes);
}

static void activate(int32_t h, float *row, const float *before, float *y, float *after)
{
    poet_logistic_each(row, row, 2 * h);
    poet_hyperbolic_tangent_each(row + 2 * h, row + 2 * h, h);
    poet_logistic_each(row + 3 * h, row + 3 * h, h);
    for (int32_t i = 0; i < h; i++) {
        after[i] = row[h + i] * before[i] + row[i] * row[2 * h + i];
    }
    poet_hyperbolic_tangent_each(y, after, h);
    for (int32_t i = 0; i < h; i++) {
        y[i] = row[3 * h + i] * y[i];
    }
}

int poet_lstm_run(const poet_op_args *args)
{
    const poet_lstm_params *p = (const poet_lstm_params *)args->params;
    const int32_t h = p->h;
    const int32_t state = p->n * h;
    const poet_product product = poet_states_by_weights(p->n, h, 4 * h, 4 * h);
    const float *w = args->inputs[1];
    const float *before = args->inputs[2];
    const float *cells_before = args->inputs[3];
    float *gates = poet_in_place(args, p->s * state * 4);
    for (int32_t t = 0; t < p->s; t++) {
        const int32_t at = poet_step_at(t, p->s, p->reverse) * state;
        float *rows = gates + 4 * at;
        float *y = (float *)args->outputs[1] + at;
        float *cells = (float *)args->outputs[2] + at;
        poet_product_add(&product, before, w, rows);
        for (int32_t i = 0; i < state; i += h) {
            activate(h, rows + 4 * i, cells_before + i, y + i, cells + i);
        }
        before = y;
        cells_before = cells;
    }
    return POET_OK;
}
