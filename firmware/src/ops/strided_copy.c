/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers a view into a tensor of its own: a permutation, slice, selection, expansion or flip, by its strides. */
#include "../kernels/shape.h"

/* Elements of the view, or 0 if the parameters make no sense or the view leaves the tensor. */
static uint32_t count_of(const int32_t *params)
{
    const poet_strided_copy_params *p = (const poet_strided_copy_params *)params;
    const int32_t extents[] = {p->d0, p->d1, p->d2, p->d3};
    const int32_t strides[] = {p->s0, p->s1, p->s2, p->s3};
    const uint32_t count = poet_count(p->d0, p->d1, p->d2, p->d3);
    if (count == 0 || poet_count(p->size, 1, 1, 1) == 0 || p->offset < 0) {
        return 0;
    }
    int64_t first = p->offset;
    int64_t last = p->offset;
    for (size_t axis = 0; axis < 4; axis++) {
        *(strides[axis] < 0 ? &first : &last) += (int64_t)strides[axis] * (extents[axis] - 1);
    }
    return first >= 0 && last < p->size ? count : 0;
}

int poet_strided_copy_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_strided_copy_params *p = (const poet_strided_copy_params *)params;
    const uint32_t count = count_of(params);
    if (count == 0) {
        return POET_E_ARGUMENT;
    }
    *sizes =
        (poet_sizes){.inputs = 1, .outputs = 1, .input_bytes = {4 * (uint32_t)p->size}, .output_bytes = {4 * count}};
    return POET_OK;
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
