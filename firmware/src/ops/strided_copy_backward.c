/* SPDX-License-Identifier: Apache-2.0 */
/* Scatters a view's gradient into zeros; where the view overlaps itself, gradients add up in the view's order. */
#include "../kernels/shape.h"

int poet_strided_copy_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_reversed(poet_strided_copy_sizes(params, sizes), sizes);
}

int poet_strided_copy_backward_run(const poet_op_args *args)
{
    const poet_strided_copy_backward_params *p = (const poet_strided_copy_backward_params *)args->params;
    const float *gy = args->inputs[0];
    float *gx = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        gx[i] = 0.0f;
    }
    gx += p->offset;
    for (int32_t i0 = 0; i0 < p->d0; i0++) {
        for (int32_t i1 = 0; i1 < p->d1; i1++) {
            for (int32_t i2 = 0; i2 < p->d2; i2++) {
                float *row = gx + i0 * p->s0 + i1 * p->s1 + i2 * p->s2;
                for (int32_t i3 = 0; i3 < p->d3; i3++) {
                    row[i3 * p->s3] += *gy++;
                }
            }
        }
    }
    return POET_OK;
}
