/* SPDX-License-Identifier: Apache-2.0 */
/* Any function of one value: y = table[x + 128]. */
#include "../kernels/shape.h"

int poet_map_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    const uint32_t size = poet_count(params[0], 1, 1, 1);
    *sizes = (poet_sizes){.inputs = 2, .outputs = 1, .input_bytes = {size, 256}, .output_bytes = {size}, .s8 = 1u | 2u};
    return size != 0 ? POET_OK : POET_E_ARGUMENT;
}

int poet_map_s8_run(const poet_op_args *args)
{
    const int8_t *x = args->inputs[0];
    const int8_t *table = args->inputs[1];
    int8_t *y = args->outputs[0];
    for (int32_t i = 0; i < args->params[0]; i++) {
        y[i] = table[x[i] + 128];
    }
    return POET_OK;
}
