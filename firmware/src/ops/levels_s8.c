/* SPDX-License-Identifier: Apache-2.0 */
/* Any rising function of i16 as i8: y is `low`, and 1 more for each level below x. */
#include "../kernels/shape.h"
#include "poet/operator.h"

int poet_levels_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_levels_s8_params *p = (const poet_levels_s8_params *)params;
    const uint32_t size = poet_count(p->size, 1, 1, 1);
    const bool fits = p->low >= -128 && p->levels >= 1 && p->levels <= 127 - p->low;
    *sizes = (poet_sizes){
        .inputs = 2, .outputs = 1, .input_bytes = {2 * size, 2 * (uint32_t)p->levels}, .output_bytes = {size}};
    return size != 0 && fits ? POET_OK : POET_E_ARGUMENT;
}

int poet_levels_s8_run(const poet_op_args *args)
{
    const poet_levels_s8_params *p = (const poet_levels_s8_params *)args->params;
    const int16_t *x = args->inputs[0], *levels = args->inputs[1];
    int8_t *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        const int16_t number = x[i], *first = levels; /* the same steps for every number, without a branch in them */
        for (int32_t left = p->levels; left > 1;) {
            const int32_t half = left / 2;
            first = first[half - 1] < number ? first + half : first;
            left -= half;
        }
        y[i] = (int8_t)(p->low + (int32_t)(first - levels) + (*first < number));
    }
    return POET_OK;
}
