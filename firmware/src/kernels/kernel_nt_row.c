/* SPDX-License-Identifier: Apache-2.0 */
/* A row times the transpose of B. */
#include "kernels.h"

const uint8_t poet_nt_row_kernels = 1;

#if POET_TILES_M4F
#include "micro_kernel_m4f_inl.h"

/* Assembler, laid out by hand. */
/* clang-format off */
/* One row with columns whose taps lie one after another, eight taps at a time and then one by one: eight taps of A in
 * s0-s7, of two columns of B in s8-s15 and s16-s23, where the products take their places, and up to eight sums. The
 * additions to two sums take turns, so that none waits for the one before. */
#define ROW_PRODUCTS(b0, b1, b2, b3, b4, b5, b6, b7)                                            \
    "vmul.f32 " b0 ", s0, " b0 "\n vmul.f32 " b1 ", s1, " b1 "\n vmul.f32 " b2 ", s2, " b2 "\n" \
    "vmul.f32 " b3 ", s3, " b3 "\n vmul.f32 " b4 ", s4, " b4 "\n vmul.f32 " b5 ", s5, " b5 "\n" \
    "vmul.f32 " b6 ", s6, " b6 "\n vmul.f32 " b7 ", s7, " b7 "\n"

#define ROW_ADD(c, p, d, q) "vadd.f32 " c ", " c ", " p "\n vadd.f32 " d ", " d ", " q "\n"

#define ROW_EIGHT_TAPS(b, c, d_b, d)                                                    \
    "vldmia %[" b "]!, {s8-s15}\n vldmia %[" d_b "]!, {s16-s23}\n"                      \
    ROW_PRODUCTS("s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15")                  \
    ROW_PRODUCTS("s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23")                \
    ROW_ADD(c, "s8", d, "s16") ROW_ADD(c, "s9", d, "s17") ROW_ADD(c, "s10", d, "s18")   \
    ROW_ADD(c, "s11", d, "s19") ROW_ADD(c, "s12", d, "s20") ROW_ADD(c, "s13", d, "s21") \
    ROW_ADD(c, "s14", d, "s22") ROW_ADD(c, "s15", d, "s23")

#define ROW_ONE_TAP(b, c, d_b, d)                          \
    "vldmia %[" b "]!, {s8}\n vldmia %[" d_b "]!, {s16}\n" \
    "vmul.f32 s8, s0, s8\n vmul.f32 s16, s0, s16\n" ROW_ADD(c, "s8", d, "s16")

#define ROW_TWO_COLUMNS(STEP) STEP("b0", "s24", "b1", "s25")
#define ROW_EIGHT_COLUMNS(STEP)                                   \
    STEP("b0", "s24", "b1", "s25") STEP("b2", "s26", "b3", "s27") \
    STEP("b4", "s28", "b5", "s29") STEP("b6", "s30", "b7", "s31")

#define ROW_OF_TAPS(COLUMNS, LAST_SUM, ...)                                                      \
    __asm__ volatile("vldm %[sums], {s24-" LAST_SUM "}\n"                                     \
                     "subs %[n], %[n], #8\n blt 2f\n"                                         \
                     "1: vldmia %[a]!, {s0-s7}\n" COLUMNS(ROW_EIGHT_TAPS)                     \
                     "subs %[n], %[n], #8\n bge 1b\n"                                         \
                     "2: adds %[n], %[n], #8\n beq 4f\n"                                      \
                     "3: vldmia %[a]!, {s0}\n" COLUMNS(ROW_ONE_TAP)                           \
                     "subs %[n], %[n], #1\n bne 3b\n"                                         \
                     "4: vstm %[sums], {s24-" LAST_SUM "}\n"                                  \
                     : [a] "+&r"(a), [n] "+&r"(n), [b0] "+&r"(b0), [b1] "+&r"(b1) __VA_ARGS__ \
                     : [sums] "r"(sums)                                                       \
                     : FP_REGISTERS, "cc", "memory")
/* clang-format on */

static inline void add_taps_1x8(int32_t n, float *sums, const float *a, const float *const *b, ptrdiff_t at)
{
    const float *b0 = b[0] + at, *b1 = b[1] + at, *b2 = b[2] + at, *b3 = b[3] + at;
    const float *b4 = b[4] + at, *b5 = b[5] + at, *b6 = b[6] + at, *b7 = b[7] + at;
    ROW_OF_TAPS(ROW_EIGHT_COLUMNS, "s31",
                , [b2] "+&r"(b2), [b3] "+&r"(b3), [b4] "+&r"(b4), [b5] "+&r"(b5), [b6] "+&r"(b6), [b7] "+&r"(b7));
}

static inline void add_taps_1x2(int32_t n, float *sums, const float *a, const float *const *b, ptrdiff_t at)
{
    const float *b0 = b[0] + at, *b1 = b[1] + at;
    ROW_OF_TAPS(ROW_TWO_COLUMNS, "s25", );
}

int32_t poet_kernel_nt_row(const poet_gemm_nt *gemm, int32_t columns, const float *a, const float *const *b, float *out)
{
    int32_t done = 0;
    for (int32_t k_row = 0; k_row < gemm->k_rows; k_row++) {
        for (done = 0; done + 8 <= columns; done += 8) {
            add_taps_1x8(gemm->taps, out + done, a, b + done, k_row * gemm->b_k_row);
        }
        for (; done + 2 <= columns; done += 2) {
            add_taps_1x2(gemm->taps, out + done, a, b + done, k_row * gemm->b_k_row);
        }
        a += gemm->taps;
    }
    return done;
}
#endif
