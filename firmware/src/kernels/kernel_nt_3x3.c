/* SPDX-License-Identifier: Apache-2.0 */
/* Weight gradients of 3x3 kernels: the nine sums of one or two rows stay in registers, and what the window sees. */
#include "kernels.h"

const uint8_t poet_nt_3x3_kernels = 1;

#if POET_FPU_ASSEMBLY
/* Assembler, laid out by hand. */
/* clang-format off */
/* Nine sums in s0-s8; of each k_row four taps of A in s9-s12, and what the window sees of a k_row of B from s13 on. */
#define NINE_ADD(a, x0, x1, x2, c0, c1, c2)                                                     \
    "vmul.f32 s22, " a ", " x0 "\n vmul.f32 s23, " a ", " x1 "\n vmul.f32 s24, " a ", " x2 "\n" \
    "vadd.f32 " c0 ", " c0 ", s22\n vadd.f32 " c1 ", " c1 ", s23\n vadd.f32 " c2 ", " c2 ", s24\n"

#define NINE_ROW(b, c0, c1, c2)                                                                      \
    "vldm %[" b "], {s13-s18}\n add %[" b "], %[" b "], #16\n"                                       \
    NINE_ADD("s9", "s13", "s14", "s15", c0, c1, c2) NINE_ADD("s10", "s14", "s15", "s16", c0, c1, c2) \
    NINE_ADD("s11", "s15", "s16", "s17", c0, c1, c2) NINE_ADD("s12", "s16", "s17", "s18", c0, c1, c2)

#define NINE_ROW_STRIDE_2(b, c0, c1, c2)                                                             \
    "vldm %[" b "], {s13-s21}\n add %[" b "], %[" b "], #32\n"                                       \
    NINE_ADD("s9", "s13", "s14", "s15", c0, c1, c2) NINE_ADD("s10", "s15", "s16", "s17", c0, c1, c2) \
    NINE_ADD("s11", "s17", "s18", "s19", c0, c1, c2) NINE_ADD("s12", "s19", "s20", "s21", c0, c1, c2)

#define NINE_ONE(b, c0, c1, c2) \
    "vldm %[" b "], {s13-s15}\n add %[" b "], %[" b "], %[tap]\n" NINE_ADD("s9", "s13", "s14", "s15", c0, c1, c2)

#define NINE_ROWS(K_ROW) K_ROW("b0", "s0", "s1", "s2") K_ROW("b1", "s3", "s4", "s5") K_ROW("b2", "s6", "s7", "s8")

#define NINE_SUMS(K_ROW)                                                                                   \
    __asm__ volatile("vldm %[out], {s0-s8}\n"                                                              \
                     "1: subs %[n], %[taps], #4\n blt 3f\n"                                                \
                     "2: vldmia %[a]!, {s9-s12}\n" NINE_ROWS(K_ROW) "subs %[n], %[n], #4\n bge 2b\n"       \
                     "3: adds %[n], %[n], #4\n beq 5f\n"                                                   \
                     "4: vldmia %[a]!, {s9}\n" NINE_ROWS(NINE_ONE) "subs %[n], %[n], #1\n bne 4b\n"        \
                     "5: add %[b0], %[b0], %[gap]\n add %[b1], %[b1], %[gap]\n add %[b2], %[b2], %[gap]\n" \
                     "subs %[k_rows], %[k_rows], #1\n bne 1b\n"                                            \
                     "vstm %[out], {s0-s8}\n"                                                              \
                     : [a] "+&r"(a), [b0] "+&r"(b0), [b1] "+&r"(b1), [b2] "+&r"(b2),                       \
                       [k_rows] "+&r"(k_rows), [n] "=&r"(n)                                                \
                     : [out] "r"(out), [taps] "r"(gemm->taps), [tap] "r"(gemm->b_tap * 4),                 \
                       [gap] "r"((gemm->b_k_row - gemm->taps * gemm->b_tap) * 4)                           \
                     : FP_REGISTERS, "cc", "memory")

/* The same of two rows at once, whose sums are in s0-s8 and s9-s17: a window in s18-s26 stays in registers and moves
 * along its three k_rows, so that a position loads three elements of B, or six where the windows are two apart. */
#define PAIR_ADD(a, x0, x1, x2, c0, c1, c2)                                                     \
    "vmul.f32 s29, " a ", " x0 "\n vmul.f32 s30, " a ", " x1 "\n vmul.f32 s31, " a ", " x2 "\n" \
    "vadd.f32 " c0 ", " c0 ", s29\n vadd.f32 " c1 ", " c1 ", s30\n vadd.f32 " c2 ", " c2 ", s31\n"

#define PAIR_ROW(x0, x1, x2, c0, c1, c2, d0, d1, d2) \
    PAIR_ADD("s27", x0, x1, x2, c0, c1, c2) PAIR_ADD("s28", x0, x1, x2, d0, d1, d2)

#define PAIR_POSITION(a_at, LOADS, x0, x1, x2, y0, y1, y2, z0, z1, z2)    \
    "vldr s27, [%[a0], #" a_at "]\n vldr s28, [%[a1], #" a_at "]\n" LOADS \
    PAIR_ROW(x0, x1, x2, "s0", "s1", "s2", "s9", "s10", "s11")            \
    PAIR_ROW(y0, y1, y2, "s3", "s4", "s5", "s12", "s13", "s14")           \
    PAIR_ROW(z0, z1, z2, "s6", "s7", "s8", "s15", "s16", "s17")

#define PAIR_LOAD(x, y, z, at) \
    "vldr " x ", [%[b0], #" at "]\n vldr " y ", [%[b1], #" at "]\n vldr " z ", [%[b2], #" at "]\n"

/* The element that was first becomes the last one; after three positions all are back in their registers. */
#define PAIR_FIRST(a_at, at)                                \
    PAIR_POSITION(a_at, PAIR_LOAD("s20", "s23", "s26", at), \
                  "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26")
#define PAIR_SECOND(a_at, at)                               \
    PAIR_POSITION(a_at, PAIR_LOAD("s18", "s21", "s24", at), \
                  "s19", "s20", "s18", "s22", "s23", "s21", "s25", "s26", "s24")
#define PAIR_THIRD(a_at, at)                                \
    PAIR_POSITION(a_at, PAIR_LOAD("s19", "s22", "s25", at), \
                  "s20", "s18", "s19", "s23", "s21", "s22", "s26", "s24", "s25")

/* Two apart, the last element becomes the first one, and after two positions all are back. */
#define PAIR_EVEN(a_at, at, next_at)                                                                \
    PAIR_POSITION(a_at, PAIR_LOAD("s19", "s22", "s25", at) PAIR_LOAD("s20", "s23", "s26", next_at), \
                  "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26")
#define PAIR_ODD(a_at, at, next_at)                                                                 \
    PAIR_POSITION(a_at, PAIR_LOAD("s19", "s22", "s25", at) PAIR_LOAD("s18", "s21", "s24", next_at), \
                  "s20", "s19", "s18", "s23", "s22", "s21", "s26", "s25", "s24")

#define PAIR_FOUR_STRIDE_2                             \
    PAIR_EVEN("0", "4", "8") PAIR_ODD("4", "12", "16") \
    PAIR_EVEN("8", "20", "24") PAIR_ODD("12", "28", "32")
#define PAIR_LEFT_STRIDE_2                             \
    PAIR_EVEN("0", "4", "8") "cmp %[n], #2\n blt 5f\n" \
    PAIR_ODD("4", "12", "16") "beq 5f\n" PAIR_EVEN("8", "20", "24")

#define PAIR_ADVANCE(a_by, b_by)                                \
    "add %[a0], %[a0], " a_by "\n add %[a1], %[a1], " a_by "\n" \
    "add %[b0], %[b0], " b_by "\n add %[b1], %[b1], " b_by "\n add %[b2], %[b2], " b_by "\n"

/* What the assembly reads by offset. */
typedef struct pair_cursor {
    const float *const *b;
    int32_t k_rows, out_row_bytes;
    int32_t a_pair_bytes; /* from the end of a row's last tap to the row two further down */
} pair_cursor;

#define PAIR_OUT(MOVE) \
    "ldr %[t], [%[w], %[out_row]]\n add %[t], %[out], %[t]\n" MOVE " %[out], {s0-s8}\n" MOVE " %[t], {s9-s17}\n"

/* For pairs of rows one below the other: `period` positions at a time, then those that are left. */
#define PAIR_SUMS(PRELOAD, period, POSITIONS, a_by, b_by, LEFT)                                          \
    __asm__ volatile("7:\n" PAIR_OUT("vldm")                                                             \
                     "ldr %[n], [%[w], %[b]]\n ldr %[b0], [%[n]]\n ldr %[b1], [%[n], #12]\n"             \
                     "ldr %[b2], [%[n], #24]\n ldr %[t], [%[w], %[k_rows]]\n"                            \
                     "1:\n" PRELOAD "subs %[n], %[taps], #" period "\n blt 3f\n"                         \
                     "2:\n" POSITIONS PAIR_ADVANCE(a_by, b_by) "subs %[n], %[n], #" period "\n bge 2b\n" \
                     "3: adds %[n], %[n], #" period "\n beq 5f\n" LEFT                                   \
                     "5: add %[a0], %[a0], %[n], lsl #2\n add %[a1], %[a1], %[n], lsl #2\n"              \
                     "add %[b0], %[b0], %[gap]\n add %[b1], %[b1], %[gap]\n add %[b2], %[b2], %[gap]\n"  \
                     "subs %[t], %[t], #1\n bne 1b\n" PAIR_OUT("vstm")                                   \
                     "ldr %[n], [%[w], %[a_pair]]\n add %[a0], %[a0], %[n]\n add %[a1], %[a1], %[n]\n"   \
                     "ldr %[n], [%[w], %[out_row]]\n add %[out], %[out], %[n], lsl #1\n"                 \
                     "subs %[pairs], %[pairs], #1\n bne 7b\n"                                            \
                     : [a0] "+&r"(a0), [a1] "+&r"(a1), [b0] "=&r"(b0), [b1] "=&r"(b1), [b2] "=&r"(b2),   \
                       [n] "=&r"(n), [t] "=&r"(t), [out] "+&r"(out), [pairs] "+&r"(pairs)                \
                     : [w] "r"(&cursor), [taps] "r"(gemm->taps), [gap] "r"(gap_bytes), PAIR_AT(b, b),    \
                       PAIR_AT(k_rows, k_rows), PAIR_AT(out_row, out_row_bytes),                         \
                       PAIR_AT(a_pair, a_pair_bytes)                                                     \
                     : FP_REGISTERS, "cc", "memory")

#define PAIR_AT(name, field) [name] "i"(offsetof(pair_cursor, field))
/* clang-format on */

/* Adds the products of all pairs of rows with one window. */
static void add_3x3_pairs(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    const int32_t bytes = (int32_t)sizeof(float);
    const int32_t left = gemm->b_tap == 1 ? gemm->taps % 3 : gemm->taps % 4;
    const int32_t gap_bytes = (gemm->b_k_row - (gemm->taps - left) * gemm->b_tap) * bytes;
    const pair_cursor cursor = {b, gemm->k_rows, gemm->out_row * bytes,
                                (2 * gemm->a_row - gemm->k_rows * gemm->taps) * bytes};
    const float *a0 = a, *a1 = a + gemm->a_row, *b0, *b1, *b2;
    int32_t pairs = gemm->rows / 2, n, t;
    if (gemm->b_tap == 1) {
        PAIR_SUMS(PAIR_LOAD("s18", "s21", "s24", "0") PAIR_LOAD("s19", "s22", "s25", "4"), "3",
                  PAIR_FIRST("0", "8") PAIR_SECOND("4", "12") PAIR_THIRD("8", "16"), "#12", "#12",
                  PAIR_FIRST("0", "8") "cmp %[n], #2\n blt 5f\n" PAIR_SECOND("4", "12"));
    } else {
        PAIR_SUMS(PAIR_LOAD("s18", "s21", "s24", "0"), "4", PAIR_FOUR_STRIDE_2, "#16", "#32", PAIR_LEFT_STRIDE_2);
    }
}

/* Adds the products of one row with them. */
static void add_3x3(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    const float *b0 = b[0], *b1 = b[KERNEL_WIDTH], *b2 = b[2 * KERNEL_WIDTH];
    int32_t k_rows = gemm->k_rows, n;
    if (gemm->b_tap == 1) {
        NINE_SUMS(NINE_ROW);
    } else {
        NINE_SUMS(NINE_ROW_STRIDE_2);
    }
}

void poet_kernel_nt_3x3(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    const int32_t last = gemm->rows - 1;
    for (int32_t column = 0; column < gemm->columns; column += KERNEL_WEIGHTS) {
        if (gemm->rows >= 2) {
            add_3x3_pairs(gemm, a, b + column, out + column);
        }
        if (gemm->rows % 2 != 0) {
            add_3x3(gemm, a + last * gemm->a_row, b + column, out + last * gemm->out_row + column);
        }
    }
}
#endif
