/* SPDX-License-Identifier: Apache-2.0 */
/* From f32 to int8. No byte stands for what is no number: POET_E_NOT_FINITE. */
#include "../kernels/mathematics.h"
#include "../kernels/s8.h"
#include "../kernels/shape.h"

static poet_range_s8 range_of(const poet_quantize_s8_params *p)
{
    return (poet_range_s8){p->zero, p->low, p->high};
}

int poet_quantize_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_quantize_s8_params *p = (const poet_quantize_s8_params *)params;
    const poet_range_s8 range = range_of(p);
    const uint32_t size = poet_count(p->size, 1, 1, 1);
    if (size == 0 || !poet_range_s8_is_sound(&range) || !poet_is_scale(p->inverse_f32)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){.inputs = 1, .outputs = 1, .input_bytes = {4u * size}, .output_bytes = {size}};
    return POET_OK;
}

int poet_quantize_s8_run(const poet_op_args *args)
{
    const poet_quantize_s8_params *p = (const poet_quantize_s8_params *)args->params;
    const poet_range_s8 range = range_of(p);
    const float inverse = poet_from_bits(p->inverse_f32);
    const float *x = args->inputs[0];
    int8_t *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        if (x[i] != x[i]) {
            return POET_E_NOT_FINITE;
        }
        y[i] = poet_clamped(&range, poet_rounded(x[i] * inverse));
    }
    return POET_OK;
}
