/* SPDX-License-Identifier: Apache-2.0 */
#include "registers_m4f.h"

#include "depthwise_padded.h"

#include <stddef.h>

#include "poet/operator.h"

const uint8_t poet_depthwise_padded_kernels = 1;

#if POET_FPU_ASSEMBLY

#include "depthwise_padded_m4f_inl.h"

bool poet_depthwise_padded_multiply(const poet_gemm *gemm, const float *w, const float *start, const float *x, float *y)
{
    const windows_kind kind = windows_kind_of(gemm);
    const float nothing = SUM_OF_NOTHING;
    if (kind == WINDOWS_UNKNOWN) {
        return false;
    }
    for (int32_t row = 0; row < gemm->rows; row++) {
        sum_padded(gemm, kind, w, start != NULL ? start + row : &nothing, x, y);
        w += gemm->a_row;
        y += gemm->out_row;
    }
    return true;
}

#else

bool poet_depthwise_padded_multiply(const poet_gemm *gemm, const float *w, const float *start, const float *x, float *y)
{
    (void)gemm, (void)w, (void)start, (void)x, (void)y;
    return false;
}

#endif
