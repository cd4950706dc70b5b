/* SPDX-License-Identifier: Apache-2.0 */
/* y = x between two limits, else the nearer limit; ReLU6 is the one with 0 and 6. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(hardtanh, 1)

int poet_hardtanh_run(const poet_op_args *args)
{
    const poet_hardtanh_params *p = (const poet_hardtanh_params *)args->params;
    const float low = poet_from_bits(p->low_f32);
    const float high = poet_from_bits(p->high_f32);
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        const float least = x[i] < low ? low : x[i]; /* so written, a NaN stays one */
        y[i] = least > high ? high : least;
    }
    return POET_OK;
}
