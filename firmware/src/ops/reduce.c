/* SPDX-License-Identifier: Apache-2.0 */
/* Along the middle axis of three, the greatest element (NaN where there is one), or the product in the axis's order. */
#include "../kernels/shape.h"

enum { GREATEST, PRODUCT };

int poet_reduce_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_reduce_params *p = (const poet_reduce_params *)params;
    return p->kind < GREATEST || p->kind > PRODUCT ? POET_E_ARGUMENT : poet_sizes_read("abc>ac", params, sizes);
}

int poet_reduce_run(const poet_op_args *args)
{
    const poet_reduce_params *p = (const poet_reduce_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t outer = 0; outer < p->outer; outer++, y += p->inner) {
        for (int32_t i = 0; i < p->inner; i++) {
            y[i] = *x++;
        }
        for (int32_t k = 1; k < p->length; k++) {
            for (int32_t i = 0; i < p->inner; i++, x++) {
                if (p->kind == PRODUCT) {
                    y[i] *= *x;
                } else if (*x > y[i] || *x != *x) {
                    y[i] = *x;
                }
            }
        }
    }
    return POET_OK;
}
