/* SPDX-License-Identifier: Apache-2.0 */
/* Single channels that depthwise_m4f_inl.h does not read where they lie, over padded rows of their inputs: strips four
 * results wide, or where the stride of an input gradient parts a kernel, four results of a row at a time. */
#ifndef POET_KERNELS_DEPTHWISE_PADDED_M4F_INL_H
#define POET_KERNELS_DEPTHWISE_PADDED_M4F_INL_H

#include "micro_kernel.h"
#include "registers_m4f.h"

/* Assembler, laid out by hand. */
/* clang-format off */
/* As strips in depthwise_m4f_inl.h, one result wider: weights in s0-s8, what sums begin with in s9, sums of the first
 * row of taps in s10-s13, of the second in s14-s17, a row of inputs from s18 on, products in s28-s31. */
#define PADDED_TAP(w, f0, f1, f2, f3, c0, c1, c2, c3, x0, x1, x2, x3) \
    "vmul.f32 s28, " w ", " x0 "\n vmul.f32 s29, " w ", " x1 "\n"     \
    "vmul.f32 s30, " w ", " x2 "\n vmul.f32 s31, " w ", " x3 "\n"     \
    "vadd.f32 " c0 ", " f0 ", s28\n vadd.f32 " c1 ", " f1 ", s29\n"   \
    "vadd.f32 " c2 ", " f2 ", s30\n vadd.f32 " c3 ", " f3 ", s31\n"
#define PADDED_ABOVE(w, ...) PADDED_TAP(w, "s10", "s11", "s12", "s13", "s10", "s11", "s12", "s13", __VA_ARGS__)
#define PADDED_BELOW(w, ...) PADDED_TAP(w, "s14", "s15", "s16", "s17", "s14", "s15", "s16", "s17", __VA_ARGS__)
#define PADDED_BEGIN(w, ...) PADDED_TAP(w, "s9", "s9", "s9", "s9", "s10", "s11", "s12", "s13", __VA_ARGS__)
#define PADDED_MOVE(w, ...) PADDED_TAP(w, "s10", "s11", "s12", "s13", "s14", "s15", "s16", "s17", __VA_ARGS__)

/* TAPS names the inputs that the first, the second and the third tap of a row meet. */
#define PADDED_FIRST(TAPS) PADDED_BEGIN("s0", TAPS##_0) PADDED_ABOVE("s1", TAPS##_1) PADDED_ABOVE("s2", TAPS##_2)
#define PADDED_SECOND(TAPS) PADDED_ABOVE("s3", TAPS##_0) PADDED_ABOVE("s4", TAPS##_1) PADDED_MOVE("s5", TAPS##_2)
#define PADDED_THIRD(TAPS) PADDED_BELOW("s6", TAPS##_0) PADDED_BELOW("s7", TAPS##_1) PADDED_BELOW("s8", TAPS##_2)

#define FOUR_0 "s18", "s19", "s20", "s21"
#define FOUR_1 "s19", "s20", "s21", "s22"
#define FOUR_2 "s20", "s21", "s22", "s23"
#define DESCENDING_0 FOUR_2
#define DESCENDING_1 FOUR_1
#define DESCENDING_2 FOUR_0
#define FOUR_APART_0 "s18", "s20", "s22", "s24"
#define FOUR_APART_1 "s19", "s21", "s23", "s25"
#define FOUR_APART_2 "s20", "s22", "s24", "s26"

#define LOAD_PADDED(last) "vldm %[x], {s18-" last "}\n add %[x], %[x], %[row]\n"
#define END_PADDED "vstm %[y], {s14-s17}\n add %[y], %[y], %[y_row]\n"

#define PADDED_STRIP(ROWS)                                                                \
    __asm__ volatile("vldm %[w], {s0-s8}\n vldr s9, [%[start]]\n" ROWS                    \
                     : [x] "+&r"(x), [y] "+&r"(y), [n] "+&r"(n)                           \
                     : [w] "r"(w), [start] "r"(start), [row] "r"(row), [y_row] "r"(y_row) \
                     : FP_REGISTERS, "cc", "memory")

#define PADDED_ROWS(TAPS)                                                      \
    LOAD_PADDED("s23") PADDED_FIRST(TAPS) LOAD_PADDED("s23") "b 2f\n"          \
    "1:\n" PADDED_FIRST(TAPS) LOAD_PADDED("s23") PADDED_THIRD(TAPS) END_PADDED \
    "2:\n" PADDED_SECOND(TAPS) "subs %[n], %[n], #1\n bne 1b\n"                \
    LOAD_PADDED("s23") PADDED_THIRD(TAPS) END_PADDED

#define PADDED_ROWS_APART                                                                           \
    LOAD_PADDED("s26") "1:\n" PADDED_FIRST(FOUR_APART) LOAD_PADDED("s26") PADDED_SECOND(FOUR_APART) \
    LOAD_PADDED("s26") PADDED_THIRD(FOUR_APART) END_PADDED "subs %[n], %[n], #1\n bne 1b\n"
/* clang-format on */

/* Of so many rows of results. Inlined, because it takes all registers. */
static inline void sum_padded_strip(const poet_gemm *gemm, windows_kind kind, int32_t n, const float *w,
                                    const float *start, const float *x, float *y)
{
    const int32_t row = gemm->b_k_row * (int32_t)sizeof(float);
    int32_t y_row = gemm->out_panel * (int32_t)sizeof(float);
    switch (kind) {
    case WINDOWS_APART:
        PADDED_STRIP(PADDED_ROWS_APART);
        break;
    case WINDOWS_DESCENDING: /* from the lowest row up, so that the first taps come first there, too */
        x += (n - 1) * gemm->b_panel - (KERNEL_WIDTH - 1);
        y += (n - 1) * gemm->out_panel;
        y_row = -y_row;
        PADDED_STRIP(PADDED_ROWS(DESCENDING));
        break;
    default:
        PADDED_STRIP(PADDED_ROWS(FOUR));
        break;
    }
}

/* The last strip may go back over columns of the one before. Where a row of results is not as far from the next one in
 * rows as in columns, or has too few columns, each is a strip by itself. */
static void sum_padded_strips(const poet_gemm *gemm, windows_kind kind, const float *w, const float *start,
                              const float *x, float *y)
{
    const bool narrow = gemm->columns < POET_TILE;
    const bool follow = gemm->b_tap < 0 || gemm->b_panel == gemm->b_column * gemm->b_k_row;
    const int32_t rows = follow && !narrow ? gemm->panels : 1;
    const int32_t last = narrow ? 0 : gemm->columns - POET_TILE;
    float part[POET_TILE];
    for (int32_t column = 0; column < gemm->columns; column += POET_TILE) {
        const int32_t at = column < last ? column : last;
        const float *x_at = x + at * gemm->b_column;
        float *y_at = y + at;
        for (int32_t row = 0; row < gemm->panels; row += rows) {
            sum_padded_strip(gemm, kind, rows, w, start, x_at, narrow ? part : y_at);
            for (int32_t j = 0; narrow && j < gemm->columns; j++) {
                y_at[j] = part[j];
            }
            x_at += gemm->b_panel;
            y_at += gemm->out_panel;
        }
    }
}

/* Assembler, laid out by hand. */
/* clang-format off */
/* Weights in s0-s3, what sums begin with in s4, a row of inputs from s10 on, four sums, four products. */
#define PARTED_TAP(weight, b0, b1, b2, b3)                                  \
    "vmul.f32 s23, " weight ", " b0 "\n vmul.f32 s24, " weight ", " b1 "\n" \
    "vmul.f32 s25, " weight ", " b2 "\n vmul.f32 s26, " weight ", " b3 "\n" \
    "vadd.f32 s19, s19, s23\n vadd.f32 s20, s20, s24\n vadd.f32 s21, s21, s25\n vadd.f32 s22, s22, s26\n"

#define LOAD_PARTED(last) "vldm %[at], {s10-" last "}\n add %[at], %[at], %[k_row]\n"
#define PARTED_PAIR(w0, w1) \
    LOAD_PARTED("s14") PARTED_TAP(w0, "s11", "s12", "s13", "s14") PARTED_TAP(w1, "s10", "s11", "s12", "s13")
#define PARTED_SINGLE(w0) LOAD_PARTED("s13") PARTED_TAP(w0, "s10", "s11", "s12", "s13")

/* So many results at a time; the last ones may go back over some. */
#define PARTED_ROWS(K_ROWS)                                                                                      \
    __asm__ volatile("vldm %[at], {s0-s4}\n"                                                                     \
                     "1: mov %[n], %[tiles]\n"                                                                   \
                     "2: subs %[n], %[n], #1\n itt eq\n subeq %[x], %[x], %[x_back]\n"                           \
                     "subeq %[y], %[y], %[y_back]\n"                                                             \
                     "vmov.f32 s19, s4\n vmov.f32 s20, s4\n vmov.f32 s21, s4\n vmov.f32 s22, s4\n"               \
                     "mov %[at], %[x]\n" K_ROWS                                                                  \
                     "vstr s19, [%[y]]\n vstr s20, [%[y], #8]\n vstr s21, [%[y], #16]\n vstr s22, [%[y], #24]\n" \
                     "add %[y], %[y], #32\n add %[x], %[x], #16\n bne 2b\n"                                      \
                     "add %[x], %[x], %[x_next]\n add %[y], %[y], %[y_next]\n"                                   \
                     "subs %[panels], %[panels], #1\n bne 1b\n"                                                  \
                     : [at] "+&r"(at), [x] "+&r"(x), [y] "+&r"(y), [panels] "+&r"(panels), [n] "=&r"(n)          \
                     : [k_row] "r"(gemm->b_k_row * 4), [tiles] "r"(tiles), [x_back] "r"(back),                   \
                       [y_back] "r"(2 * back), [x_next] "r"((gemm->b_panel - columns) * 4),                      \
                       [y_next] "r"((gemm->out_panel - 2 * columns) * 4)                                         \
                     : FP_REGISTERS, "cc", "memory")
/* clang-format on */

static void sum_parted_rows(const poet_gemm *gemm, int32_t columns, int32_t panels, const float *w, const float *start,
                            const float *x, float *y)
{
    const int32_t tiles = (columns + POET_TILE - 1) / POET_TILE;
    const int32_t back = (tiles * POET_TILE - columns) * (int32_t)sizeof(float);
    const float weights[] = {w[0], w[(gemm->taps - 1) * gemm->a_tap], w[(gemm->k_rows - 1) * gemm->a_k_row],
                             w[(gemm->k_rows - 1) * gemm->a_k_row + (gemm->taps - 1) * gemm->a_tap], *start};
    const float *at = weights;
    int32_t n;
    x -= gemm->taps - 1;
    if (gemm->taps == 2 && gemm->k_rows == 2) {
        PARTED_ROWS(PARTED_PAIR("s0", "s1") PARTED_PAIR("s2", "s3"));
    } else if (gemm->taps == 2) {
        PARTED_ROWS(PARTED_PAIR("s0", "s1"));
    } else if (gemm->k_rows == 2) {
        PARTED_ROWS(PARTED_SINGLE("s0") PARTED_SINGLE("s2"));
    } else {
        PARTED_ROWS(PARTED_SINGLE("s0"));
    }
}

/* Rows with fewer results than are computed at a time, one after the other through a buffer. */
static void sum_narrow_parted_rows(const poet_gemm *gemm, const float *w, const float *start, const float *x, float *y)
{
    float part[2 * POET_TILE];
    for (int32_t panel = 0; panel < gemm->panels; panel++) {
        sum_parted_rows(gemm, POET_TILE, 1, w, start, x, part);
        for (int32_t j = 0; j < gemm->columns; j++) {
            y[2 * j] = part[2 * j];
        }
        x += gemm->b_panel;
        y += gemm->out_panel;
    }
}

static void sum_padded(const poet_gemm *gemm, windows_kind kind, const float *w, const float *start, const float *x,
                       float *y)
{
    if (kind != WINDOWS_PARTED) {
        sum_padded_strips(gemm, kind, w, start, x, y);
    } else if (gemm->columns < POET_TILE) {
        sum_narrow_parted_rows(gemm, w, start, x, y);
    } else {
        sum_parted_rows(gemm, gemm->columns, gemm->panels, w, start, x, y);
    }
}

#endif
