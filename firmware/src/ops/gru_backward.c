/* SPDX-License-Identifier: Apache-2.0 */
/* From the last step to the first. gx are the gradients of what x was added to, ghidden those of what r is multiplied
 * with; the other two gates' are the same for x and for the state before. */
#include "recurrent.h"

int poet_gru_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_gru_backward_params *p = (const poet_gru_backward_params *)params;
    return (p->reverse & ~1) != 0 ? POET_E_ARGUMENT
                                  : poet_sizes_read("abc3,abc,abc,3cc,bc,e?abc,f?bc>abc3,abc,bc", params, sizes);
}

/* One sample's: its row of gates becomes gr, gz and what r is multiplied with has, in the order of the weights. */
static void differentiate(int32_t h, float *row, const float *hidden, const float *before, float *gn, float *gh)
{
    for (int32_t i = 0; i < h; i++) {
        const float r = row[i];
        const float z = row[h + i];
        const float n = row[2 * h + i];
        const float up = gh[i];
        gn[i] = up * (1.0f - z) * (1.0f - n * n);
        row[i] = gn[i] * hidden[i] * (r * (1.0f - r));
        row[h + i] = up * (before[i] - n) * (z * (1.0f - z));
        row[2 * h + i] = gn[i] * r;
        gh[i] = up * z;
    }
}

static void exchange(int32_t h, float *a, float *b)
{
    for (int32_t i = 0; i < h; i++) {
        const float first = a[i];
        a[i] = b[i];
        b[i] = first;
    }
}

int poet_gru_backward_run(const poet_op_args *args)
{
    const poet_gru_backward_params *p = (const poet_gru_backward_params *)args->params;
    const int32_t h = p->h;
    const int32_t state = p->n * h;
    const poet_product product = poet_gradients_by_weights(p->n, h, 3 * h, 3 * h);
    const float *hidden = args->inputs[1];
    const float *y = args->inputs[2];
    const float *w = args->inputs[3];
    const void *const *more = args->inputs + 5;
    const float *gy = poet_next_input(&more, p->gy);
    float *gx = poet_in_place(args, p->s * state * 3);
    float *ghidden = args->outputs[1];
    float *gh = args->outputs[2];
    poet_begin_gradient(gh, poet_next_input(&more, p->gh), state);
    for (int32_t t = p->s - 1; t >= 0; t--) {
        const int32_t at = poet_step_at(t, p->s, p->reverse) * state;
        const float *before = t == 0 ? args->inputs[4] : y + poet_step_at(t - 1, p->s, p->reverse) * state;
        poet_add_gradient(gh, gy, at, state);
        for (int32_t i = 0; i < state; i += h) {
            differentiate(h, gx + 3 * (at + i), hidden + at + i, before + i, ghidden + at + i, gh + i);
        }
        poet_product_add(&product, gx + 3 * at, w, gh);
        for (int32_t i = at; i < at + state; i += h) {
            exchange(h, gx + 3 * i + 2 * h, ghidden + i);
        }
    }
    return POET_OK;
}
