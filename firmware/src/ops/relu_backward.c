/* SPDX-License-Identifier: Apache-2.0 */
/* By the numbers' bits, as relu.c. */
#include "../kernels/bits.h"
#include "../kernels/shape.h"

POET_ELEMENTWISE_SIZES(relu_backward, 2)

/* The gradient passes where y is above zero, or no number. */
static inline uint32_t passed(uint32_t y, uint32_t gradient)
{
    return (int32_t)y <= 0 && y <= (POET_MINUS_ZERO | POET_INFINITY) ? 0 : gradient;
}

int poet_relu_backward_run(const poet_op_args *args)
{
    const poet_relu_backward_params *p = (const poet_relu_backward_params *)args->params;
    const poet_bits *gy = args->inputs[0];
    const poet_bits *y = args->inputs[1];
    poet_bits *gx = args->outputs[0];
    for (int32_t fours = p->size / 4; fours > 0; fours--, y += 4, gy += 4, gx += 4) {
        const uint32_t y0 = y[0], y1 = y[1], y2 = y[2], y3 = y[3];
        const uint32_t gy0 = gy[0], gy1 = gy[1], gy2 = gy[2], gy3 = gy[3];
        gx[0] = passed(y0, gy0), gx[1] = passed(y1, gy1), gx[2] = passed(y2, gy2), gx[3] = passed(y3, gy3);
    }
    for (int32_t ones = p->size % 4; ones > 0; ones--) {
        *gx++ = passed(*y++, *gy++);
    }
    return POET_OK;
}
