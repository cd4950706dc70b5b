/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions with 3x3 kernels that depthwise.h does not compute: with other paddings, odd extents and a
 * stride of 2, or two filters a channel. Their inputs are laid out as gemm.h takes them. */
#ifndef POET_KERNELS_DEPTHWISE_PADDED_H
#define POET_KERNELS_DEPTHWISE_PADDED_H

#include <stdbool.h>

#include "micro_kernel.h"
#include "poet/operator.h"

/* Whether asking is worth it: more rows share what a tile loads, and a kernel is whole or parted by a stride of 2. */
static inline bool poet_depthwise_padded_might(const poet_gemm *gemm)
{
    return gemm->rows <= 2 && gemm->channels == 1 &&
           (gemm->taps == KERNEL_WIDTH ? gemm->k_rows == KERNEL_WIDTH : gemm->out_column == 2);
}

/* Windows of a convolution of stride 1, of one of stride 2, of the input gradient of the first, whose taps descend, and
 * of that of the second, in which a result meets at most two taps of a row and of a column. */
typedef enum windows_kind {
    WINDOWS_UNKNOWN,
    WINDOWS_CLOSE,
    WINDOWS_APART,
    WINDOWS_DESCENDING,
    WINDOWS_PARTED
} windows_kind;

static inline windows_kind windows_kind_of(const poet_gemm *gemm)
{
    const bool whole = gemm->k_rows == KERNEL_WIDTH && gemm->taps == KERNEL_WIDTH && gemm->a_k_row == KERNEL_WIDTH &&
                       gemm->a_tap == 1 && gemm->out_column == 1;
    const bool descends = gemm->b_tap == -1 && gemm->b_column == 1;
    if (whole && gemm->b_tap == 1 && gemm->b_column <= 2) {
        return gemm->b_column == 1 ? WINDOWS_CLOSE : WINDOWS_APART;
    }
    if (whole && descends) {
        return WINDOWS_DESCENDING;
    }
    return descends && gemm->out_column == 2 && gemm->k_rows <= 2 && gemm->taps <= 2 ? WINDOWS_PARTED : WINDOWS_UNKNOWN;
}

/* The bits of poet_gemm_multiply, where this is such a convolution or its input gradient, and the target computes it
 * quicker. Says whether it has. */
POET_OPTIONAL bool poet_depthwise_padded_multiply(const poet_gemm *gemm, const float *w, const float *start,
                                                  const float *x, float *y);

#endif
