/* SPDX-License-Identifier: Apache-2.0 */
/* From int8 to f32. */
#include "../kernels/mathematics.h"
#include "../kernels/s8.h"
#include "../kernels/shape.h"

int poet_dequantize_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_dequantize_s8_params *p = (const poet_dequantize_s8_params *)params;
    const uint32_t size = poet_count(p->size, 1, 1, 1);
    if (size == 0 || !poet_is_s8(p->zero) || !poet_is_scale(p->scale_f32)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){.inputs = 1, .outputs = 1, .input_bytes = {size}, .output_bytes = {4u * size}, .s8 = 1u};
    return POET_OK;
}

int poet_dequantize_s8_run(const poet_op_args *args)
{
    const poet_dequantize_s8_params *p = (const poet_dequantize_s8_params *)args->params;
    const float scale = poet_from_bits(p->scale_f32);
    const int8_t *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = (float)(x[i] - p->zero) * scale;
    }
    return POET_OK;
}
