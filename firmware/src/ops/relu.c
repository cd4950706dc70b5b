/* SPDX-License-Identifier: Apache-2.0 */
/* By the numbers' bits, which takes no floating-point unit, and leaves a NaN as it is. */
#include "../kernels/bits.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(relu, 1)

/* From -0 to -infinity the bits are one range. */
static inline uint32_t relu_of(uint32_t x)
{
    return x - POET_MINUS_ZERO <= POET_INFINITY ? 0 : x;
}

int poet_relu_run(const poet_op_args *args)
{
    const poet_relu_params *p = (const poet_relu_params *)args->params;
    const poet_bits *x = args->inputs[0];
    poet_bits *y = args->outputs[0];
    for (int32_t fours = p->size / 4; fours > 0; fours--, x += 4, y += 4) {
        const uint32_t x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
        y[0] = relu_of(x0), y[1] = relu_of(x1), y[2] = relu_of(x2), y[3] = relu_of(x3);
    }
    for (int32_t ones = p->size % 4; ones > 0; ones--) {
        *y++ = relu_of(*x++);
    }
    return POET_OK;
}
