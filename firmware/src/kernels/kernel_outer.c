/* SPDX-License-Identifier: Apache-2.0 */
/* A column by a row (BLAS: ger): the sixteen columns of B in s0-s15 serve all rows. */
#include "kernels.h"

const uint8_t poet_outer_kernels = 1;

#if POET_TILES_M4F

void poet_kernel_outer(const poet_gemm *gemm, const float *a, const float *b, float *out)
{
    const int32_t bytes = (int32_t)sizeof(float);
    const int32_t last = gemm->columns - VECTOR_COLUMNS;
    for (int32_t column = 0; column < gemm->columns; column += VECTOR_COLUMNS) {
        const int32_t first = column < last ? column : last;
        const float *a_at = a;
        float *out_at = out + first;
        int32_t n = gemm->rows;
        __asm__ volatile("vldm %[b], {s0-s15}\n"
                         "1: vldr s31, [%[a]]\n add %[a], %[a], %[a_row]\n"
                         "vmul.f32 s16, s31, s0\n vmul.f32 s17, s31, s1\n vmul.f32 s18, s31, s2\n"
                         "vmul.f32 s19, s31, s3\n vmul.f32 s20, s31, s4\n vmul.f32 s21, s31, s5\n"
                         "vmul.f32 s22, s31, s6\n vmul.f32 s23, s31, s7\n vmul.f32 s24, s31, s8\n"
                         "vmul.f32 s25, s31, s9\n vmul.f32 s26, s31, s10\n vmul.f32 s27, s31, s11\n"
                         "vmul.f32 s28, s31, s12\n vmul.f32 s29, s31, s13\n vmul.f32 s30, s31, s14\n"
                         "vmul.f32 s31, s31, s15\n vstm %[out], {s16-s31}\n"
                         "add %[out], %[out], %[out_row]\n subs %[n], %[n], #1\n bne 1b\n"
                         : [a] "+&r"(a_at), [out] "+&r"(out_at), [n] "+&r"(n)
                         : [b] "r"(b + first), [a_row] "r"(gemm->a_row * bytes), [out_row] "r"(gemm->out_row * bytes)
                         : FP_REGISTERS, "cc", "memory");
    }
}
#endif
