/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers a view into a tensor of its own: a permutation, slice, selection, expansion or flip, by its strides. */
#include "../kernels/shape.h"

int poet_strided_copy_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_strided_copy_params *p = (const poet_strided_copy_params *)params;
    const int32_t extents[] = {p->d0, p->d1, p->d2, p->d3};
    const int32_t strides[] = {p->s0, p->s1, p->s2, p->s3};
    if (p->offset < 0 || poet_sizes_read("j>abcd", params, sizes) != POET_OK) {
        return POET_E_ARGUMENT;
    }
    int64_t first = p->offset;
    int64_t last = p->offset;
    for (size_t axis = 0; axis < 4; axis++) {
        *(strides[axis] < 0 ? &first : &last) += (int64_t)strides[axis] * (extents[axis] - 1);
    }
    return first >= 0 && last < p->size ? POET_OK : POET_E_ARGUMENT; /* the view stays in the tensor */
}

int poet_strided_copy_run(const poet_op_args *args)
{
    const poet_strided_copy_params *p = (const poet_strided_copy_params *)args->params;
    const float *x = (const float *)args->inputs[0] + p->offset;
    float *y = args->outputs[0];
    for (int32_t i0 = 0; i0 < p->d0; i0++) {
        for (int32_t i1 = 0; i1 < p->d1; i1++) {
            for (int32_t i2 = 0; i2 < p->d2; i2++) {
                const float *row = x + i0 * p->s0 + i1 * p->s1 + i2 * p->s2;
                for (int32_t i3 = 0; i3 < p->d3; i3++) {
                    *y++ = row[i3 * p->s3];
                }
            }
        }
    }
    return POET_OK;
}
