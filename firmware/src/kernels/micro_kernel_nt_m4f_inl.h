/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the Cortex-M4F's kernels serve A times the transpose of B. */
#ifndef POET_KERNELS_MICRO_KERNEL_NT_M4F_INL_H
#define POET_KERNELS_MICRO_KERNEL_NT_M4F_INL_H

#include <stdbool.h>

#include "kernels.h"

/* Whether the columns are the places of windows, each in three k_rows. */
static bool are_3x3_windows(const poet_gemm_nt *gemm, const float *const *b)
{
    if (gemm->columns % KERNEL_WEIGHTS != 0) {
        return false;
    }
    for (int32_t j = 0; j < gemm->columns; j += KERNEL_WIDTH) {
        if (b[j + 1] != b[j] + 1 || b[j + 2] != b[j] + 2) {
            return false;
        }
    }
    return gemm->b_tap == 1 || gemm->b_tap == 2;
}

static inline int nt_add_3x3(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    if (poet_kernel_nt_3x3 == NULL || !are_3x3_windows(gemm, b)) {
        return 0;
    }
    poet_kernel_nt_3x3(gemm, a, b, out);
    return 1;
}

static inline poet_nt_kernel *nt_fours_of(const poet_gemm_nt *gemm)
{
    return gemm->b_tap == 1 ? poet_kernel_nt_fours : gemm->b_tap == 2 ? poet_kernel_nt_fours_stride_2 : NULL;
}

static inline poet_nt_kernel *nt_pairs_of(const poet_gemm_nt *gemm)
{
    return gemm->b_tap == 1 ? poet_kernel_nt_pairs : NULL;
}

static inline int32_t nt_add_row_quickly(const poet_gemm_nt *gemm, int32_t columns, const float *a,
                                         const float *const *b, float *out)
{
    return poet_kernel_nt_row != NULL && gemm->b_tap == 1 && gemm->taps >= ROW_TAPS && columns >= 2
               ? poet_kernel_nt_row(gemm, columns, a, b, out)
               : 0;
}

#endif
