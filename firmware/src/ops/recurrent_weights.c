/* SPDX-License-Identifier: Apache-2.0 */
/* gw = sum of gx by the state before, from the last step to the first: what lies last in memory comes first, in reverse
 * what lies first. So segments of steps, the last one first, would give the bits of the whole. */
#include "recurrent.h"

int poet_recurrent_weights_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_recurrent_weights_params *p = (const poet_recurrent_weights_params *)params;
    return (p->reverse & ~1) != 0 ? POET_E_ARGUMENT : poet_sizes_read("abcd,f?abc,bc,abc>dcc", params, sizes);
}

/* Those of `m` of the `width` numbers that each step has of each sample. */
static void add_up(const poet_recurrent_weights_params *p, int32_t m, int32_t width, const float *gx, const float *h0,
                   const float *y, float *gw)
{
    const int32_t h = p->h;
    const int32_t rows = (p->s - 1) * p->n;
    const int32_t way = p->reverse ? 1 : -1;
    poet_product product = {
        .m = m, .k = rows, .n = h, .a_m = 1, .a_k = way * width, .c_k = way * h, .c_n = 1, .y_m = h};
    const int32_t last = p->reverse ? 0 : rows + p->n - 1;
    const int32_t before = p->reverse ? p->n : rows - 1;
    if (rows > 0) {
        poet_product_add(&product, gx + last * width, y + before * h, gw);
    }
    product.k = p->n;
    poet_product_add(&product, gx + (p->reverse ? rows : p->n - 1) * width, h0 + (p->reverse ? 0 : p->n - 1) * h, gw);
}

int poet_recurrent_weights_run(const poet_op_args *args)
{
    const poet_recurrent_weights_params *p = (const poet_recurrent_weights_params *)args->params;
    const int32_t width = p->gates * p->h;
    const int32_t own = width - p->apart * p->h;
    const void *const *more = args->inputs + 1;
    const float *ghidden = poet_next_input(&more, p->apart);
    float *gw = args->outputs[0];
    (void)poet_clear(gw, width * p->h);
    if (own > 0) {
        add_up(p, own, width, args->inputs[0], more[0], more[1], gw);
    }
    if (ghidden != NULL) {
        add_up(p, p->h, p->h, ghidden, more[0], more[1], gw + own * p->h);
    }
    return POET_OK;
}
