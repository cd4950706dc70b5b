#include "strided.h"

uint32_t poet_strided_count(const int32_t *params)
{
    const poet_strided_copy_params *p = (const poet_strided_copy_params *)params;
    const int32_t extents[] = {p->d0, p->d1, p->d2, p->d3};
    const int32_t strides[] = {p->s0, p->s1, p->s2, p->s3};
    const uint32_t count = poet_count(p->d0, p->d1, p->d2, p->d3);
    if (count == 0 || poet_count(p->size, 1, 1, 1) == 0 || p->offset < 0) {
        return 0;
    }
    int64_t last = p->offset;
    for (size_t axis = 0; axis < 4; axis++) {
        if (strides[axis] < 0) {
            return 0;
        }
        last += (int64_t)strides[axis] * (extents[axis] - 1);
    }
    return last < p->size ? count : 0;
}
