/* SPDX-License-Identifier: Apache-2.0 */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

int poet_fill_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read(">a", params, sizes);
}

int poet_fill_run(const poet_op_args *args)
{
    const poet_fill_params *p = (const poet_fill_params *)args->params;
    const float value = poet_from_nano(p->value_nano);
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = value;
    }
    return POET_OK;
}
