/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions with 3x3 kernels that depthwise.h does not compute: with other paddings, odd extents and a
 * stride of 2, or two filters a channel. Their inputs are laid out as gemm.h takes them. */
#ifndef POET_OPS_DEPTHWISE_PADDED_H
#define POET_OPS_DEPTHWISE_PADDED_H

#include <stdbool.h>

#include "micro_kernel.h"
#include "poet/operator.h"

/* Whether asking is worth it: more rows share what a tile loads, and a kernel is whole or parted by a stride of 2. */
static inline bool poet_depthwise_padded_might(const poet_gemm *gemm)
{
    return gemm->rows <= 2 && gemm->channels == 1 &&
           (gemm->taps == KERNEL_WIDTH ? gemm->k_rows == KERNEL_WIDTH : gemm->out_column == 2);
}

/* The bits of poet_gemm_multiply, where this is such a convolution or its input gradient, and the target computes it
 * quicker. Says whether it has. */
POET_OPTIONAL bool poet_depthwise_padded_multiply(const poet_gemm *gemm, const float *w, const float *start,
                                                  const float *x, float *y);

#endif
