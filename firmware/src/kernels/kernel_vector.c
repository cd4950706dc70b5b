/* SPDX-License-Identifier: Apache-2.0 */
/* A row, or two, by a matrix: sixteen columns at a time, because every multiply-accumulate loads an element of its own.
 */
#include "kernels.h"

const uint8_t poet_vector_kernels = 1;

#if POET_TILES_M4F

#define PRODUCTS_OF_EIGHT                                                                         \
    "vmul.f32 s8, s0, s8\n vmul.f32 s9, s0, s9\n vmul.f32 s10, s0, s10\n vmul.f32 s11, s0, s11\n" \
    "vmul.f32 s12, s0, s12\n vmul.f32 s13, s0, s13\n vmul.f32 s14, s0, s14\n vmul.f32 s15, s0, s15\n"

/* One element of the row in s0, eight of B in s8-s15, sums in s16-s31. */
#define GEMV_K_ROW                                                                                        \
    "vldr s0, [%[a]]\n add %[a], %[a], %[a_k_row]\n vldmia %[b]!, {s8-s15}\n" PRODUCTS_OF_EIGHT           \
    "vadd.f32 s16, s16, s8\n vadd.f32 s17, s17, s9\n vadd.f32 s18, s18, s10\n vadd.f32 s19, s19, s11\n"   \
    "vadd.f32 s20, s20, s12\n vadd.f32 s21, s21, s13\n vadd.f32 s22, s22, s14\n vadd.f32 s23, s23, s15\n" \
    "vldm %[b], {s8-s15}\n add %[b], %[b], %[gap]\n" PRODUCTS_OF_EIGHT                                    \
    "vadd.f32 s24, s24, s8\n vadd.f32 s25, s25, s9\n vadd.f32 s26, s26, s10\n vadd.f32 s27, s27, s11\n"   \
    "vadd.f32 s28, s28, s12\n vadd.f32 s29, s29, s13\n vadd.f32 s30, s30, s14\n vadd.f32 s31, s31, s15\n"

static void multiply_row(const poet_gemm *gemm, const float *a, float start, const float *b, float *out)
{
    const int32_t bytes = (int32_t)sizeof(float);
    const int32_t last = gemm->columns - VECTOR_COLUMNS;
    for (int32_t column = 0; column < gemm->columns; column += VECTOR_COLUMNS) {
        const int32_t first = column < last ? column : last;
        const float *a_at = a, *b_at = b + first;
        int32_t n = gemm->k_rows;
        register float sum __asm__("s16") = start;
        __asm__ volatile(
            "vmov.f32 s17, s16\n vmov.f32 s18, s16\n vmov.f32 s19, s16\n vmov.f32 s20, s16\n"
            "vmov.f32 s21, s16\n vmov.f32 s22, s16\n vmov.f32 s23, s16\n vmov.f32 s24, s16\n"
            "vmov.f32 s25, s16\n vmov.f32 s26, s16\n vmov.f32 s27, s16\n vmov.f32 s28, s16\n"
            "vmov.f32 s29, s16\n vmov.f32 s30, s16\n vmov.f32 s31, s16\n"
            "1:\n" GEMV_K_ROW "subs %[n], %[n], #1\n bne 1b\n"
            "vstm %[out], {s16-s31}\n"
            : [a] "+&r"(a_at), [b] "+&r"(b_at), [n] "+&r"(n), "+t"(sum)
            : [out] "r"(out + first), [a_k_row] "r"(gemm->a_k_row * bytes), [gap] "r"((gemm->b_k_row - 8) * bytes)
            : "s0", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", "s17", "s18", "s19", "s20", "s21", "s22",
              "s23", "s24", "s25", "s26", "s27", "s28", "s29", "s30", "s31", "cc", "memory");
    }
}

void poet_kernel_vector(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out)
{
    for (int32_t row = 0; row < gemm->rows; row++) {
        multiply_row(gemm, a + row * gemm->a_row, start ? start[row] : SUM_OF_NOTHING, b, out + row * gemm->out_row);
    }
}
#endif
