/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the Cortex-M4F's micro-kernels suits an input gradient of a convolution. */
#include "kernels.h"

const uint8_t poet_gradients_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_choice_m4f_inl.h"

micro_kernel poet_gradient_kernel_of(const poet_gemm *gemm)
{
    if (gemm->a_row != KERNEL_WEIGHTS || gemm->b_column != 1 || gemm->b_tap != -1) {
        return MICRO_GENERAL;
    }
    if (gemm->taps == 3 && gemm->k_rows == 3 && gemm->a_tap == 1 && gemm->a_k_row == 3 && gemm->out_column == 1) {
        if (gemm->rows % 3 == 0 && gemm->rows % POET_TILE != 0) {
            return MICRO_GRADIENT_THREE;
        }
        return gemm->rows >= POET_TILE ? MICRO_GRADIENT_3X3 : MICRO_GENERAL;
    }
    if (gemm->taps <= 2 && gemm->k_rows <= 2 && gemm->a_tap == 2 && gemm->a_k_row == 6 && gemm->out_column == 2) {
        static const micro_kernel kernels[] = {MICRO_GRADIENT_1X1, MICRO_GRADIENT_1X2, MICRO_GRADIENT_2X1,
                                               MICRO_GRADIENT_2X2};
        return gemm->rows >= POET_TILE ? kernels[2 * gemm->k_rows + gemm->taps - 3] : MICRO_GENERAL;
    }
    return MICRO_GENERAL;
}
#endif
