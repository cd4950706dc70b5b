/* SPDX-License-Identifier: Apache-2.0 */
/* From the last step to the first. gx are the gradients of what x was added to, ghidden those of what r is multiplied
 * with; the other two gates' are the same for x and for the state before. */
#include "recurrent.h"

int poet_gru_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_gru_backward_params *p = (const poet_gru_backward_params *)params;
    poet_recurrent_sizes bytes;
    if (!poet_recurrent_size(p->s, p->n, p->h, 3, p->reverse | p->gy | p->gh, &bytes)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 5,
        .outputs = 3,
        .input_bytes = {bytes.rows, bytes.steps, bytes.steps, bytes.weights, bytes.state},
        .output_bytes = {bytes.rows, bytes.steps, bytes.state},
    };
    poet_add_inputs(sizes, p->gy, bytes.steps);
    poet_add_inputs(sizes, p->gh, bytes.state);
    return POET_OK;
}

/* One sample's. `gates` and `gx` may be the same. */
static void differentiate(int32_t h, const float *gates, const float *hidden, const float *before, const float *gy,
                          float *gx, float *ghidden, float *gh)
{
    for (int32_t i = 0; i < h; i++) {
        const float r = gates[i];
        const float z = gates[h + i];
        const float n = gates[2 * h + i];
        const float up = gy == NULL ? gh[i] : gy[i] + gh[i];
        const float gn = up * (1.0f - z) * (1.0f - n * n);
        gx[i] = gn * hidden[i] * (r * (1.0f - r));
        gx[h + i] = up * (before[i] - n) * (z * (1.0f - z));
        gx[2 * h + i] = gn;
        ghidden[i] = gn * r;
        gh[i] = up * z;
    }
}

int poet_gru_backward_run(const poet_op_args *args)
{
    const poet_gru_backward_params *p = (const poet_gru_backward_params *)args->params;
    const int32_t h = p->h;
    const int32_t state = p->n * h;
    const poet_product two = poet_gradients_by_weights(p->n, h, 2 * h, 3 * h);
    const poet_product third = poet_gradients_by_weights(p->n, h, h, h);
    const float *gates = args->inputs[0];
    const float *hidden = args->inputs[1];
    const float *y = args->inputs[2];
    const float *w = args->inputs[3];
    const void *const *more = args->inputs + 5;
    const float *gy = poet_next_input(&more, p->gy);
    float *gx = args->outputs[0];
    float *ghidden = args->outputs[1];
    float *gh = args->outputs[2];
    poet_begin_gradient(gh, poet_next_input(&more, p->gh), state);
    for (int32_t t = p->s - 1; t >= 0; t--) {
        const int32_t at = poet_step_at(t, p->s, p->reverse) * state;
        const float *before = t == 0 ? args->inputs[4] : y + poet_step_at(t - 1, p->s, p->reverse) * state;
        for (int32_t i = 0; i < state; i += h) {
            const int32_t row = at + i;
            differentiate(h, gates + 3 * row, hidden + row, before + i, gy == NULL ? NULL : gy + row, gx + 3 * row,
                          ghidden + row, gh + i);
        }
        poet_product_add(&two, gx + 3 * at, w, gh);
        poet_product_add(&third, ghidden + at, w + 2 * h * h, gh);
    }
    return POET_OK;
}
