/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions and their input gradients, for the Cortex-M4F. No tile of rows shares what is loaded here,
 * since each row has a channel of its own; but the weights stay in registers for a whole channel. */
#ifndef POET_OPS_DEPTHWISE_M4F_INL_H
#define POET_OPS_DEPTHWISE_M4F_INL_H

#include <string.h>

#include "micro_kernel.h"
#include "registers_m4f.h"

/* Assembler, laid out by hand. */
/* clang-format off */
/* Up to nine weights in s0-s8, what sums begin with in s9, a k_row of B from s10 on, four sums, four products; or five
 * or six of both, where columns come by fives or sixes. */
#define DEPTHWISE_TAP(weight, b0, b1, b2, b3)                               \
    "vmul.f32 s23, " weight ", " b0 "\n vmul.f32 s24, " weight ", " b1 "\n" \
    "vmul.f32 s25, " weight ", " b2 "\n vmul.f32 s26, " weight ", " b3 "\n" \
    "vadd.f32 s19, s19, s23\n vadd.f32 s20, s20, s24\n vadd.f32 s21, s21, s25\n vadd.f32 s22, s22, s26\n"

#define DEPTHWISE_LOAD(last) "vldm %[at], {s10-" last "}\n add %[at], %[at], %[k_row]\n"

#define DEPTHWISE_ROW(w0, w1, w2)                                       \
    DEPTHWISE_LOAD("s15") DEPTHWISE_TAP(w0, "s10", "s11", "s12", "s13") \
    DEPTHWISE_TAP(w1, "s11", "s12", "s13", "s14") DEPTHWISE_TAP(w2, "s12", "s13", "s14", "s15")

#define DEPTHWISE_ROW_STRIDE_2(w0, w1, w2)                              \
    DEPTHWISE_LOAD("s18") DEPTHWISE_TAP(w0, "s10", "s12", "s14", "s16") \
    DEPTHWISE_TAP(w1, "s11", "s13", "s15", "s17") DEPTHWISE_TAP(w2, "s12", "s14", "s16", "s18")

/* Taps of B descend. */
#define DEPTHWISE_ROW_REVERSED(w0, w1, w2)                              \
    DEPTHWISE_LOAD("s15") DEPTHWISE_TAP(w0, "s12", "s13", "s14", "s15") \
    DEPTHWISE_TAP(w1, "s11", "s12", "s13", "s14") DEPTHWISE_TAP(w2, "s10", "s11", "s12", "s13")

#define DEPTHWISE_FIVE_TAP(weight, b0, b1, b2, b3, b4)                                                         \
    "vmul.f32 s24, " weight ", " b0 "\n vmul.f32 s25, " weight ", " b1 "\n vmul.f32 s26, " weight ", " b2 "\n" \
    "vmul.f32 s27, " weight ", " b3 "\n vmul.f32 s28, " weight ", " b4 "\n"                                    \
    "vadd.f32 s18, s18, s24\n vadd.f32 s19, s19, s25\n vadd.f32 s20, s20, s26\n"                               \
    "vadd.f32 s21, s21, s27\n vadd.f32 s22, s22, s28\n"

#define DEPTHWISE_FIVE(w0, w1, w2)                                                  \
    DEPTHWISE_LOAD("s16") DEPTHWISE_FIVE_TAP(w0, "s10", "s11", "s12", "s13", "s14") \
    DEPTHWISE_FIVE_TAP(w1, "s11", "s12", "s13", "s14", "s15") DEPTHWISE_FIVE_TAP(w2, "s12", "s13", "s14", "s15", "s16")

#define DEPTHWISE_FIVE_REVERSED(w0, w1, w2)                                         \
    DEPTHWISE_LOAD("s16") DEPTHWISE_FIVE_TAP(w0, "s12", "s13", "s14", "s15", "s16") \
    DEPTHWISE_FIVE_TAP(w1, "s11", "s12", "s13", "s14", "s15") DEPTHWISE_FIVE_TAP(w2, "s10", "s11", "s12", "s13", "s14")

#define DEPTHWISE_SIX_TAP(weight, b0, b1, b2, b3, b4, b5) \
    "vmul.f32 s29, " weight ", " b5 "\n" DEPTHWISE_FIVE_TAP(weight, b0, b1, b2, b3, b4) "vadd.f32 s23, s23, s29\n"

#define DEPTHWISE_SIX(w0, w1, w2)                                                         \
    DEPTHWISE_LOAD("s17") DEPTHWISE_SIX_TAP(w0, "s10", "s11", "s12", "s13", "s14", "s15") \
    DEPTHWISE_SIX_TAP(w1, "s11", "s12", "s13", "s14", "s15", "s16")                       \
    DEPTHWISE_SIX_TAP(w2, "s12", "s13", "s14", "s15", "s16", "s17")

#define DEPTHWISE_SIX_REVERSED(w0, w1, w2)                                                \
    DEPTHWISE_LOAD("s17") DEPTHWISE_SIX_TAP(w0, "s12", "s13", "s14", "s15", "s16", "s17") \
    DEPTHWISE_SIX_TAP(w1, "s11", "s12", "s13", "s14", "s15", "s16")                       \
    DEPTHWISE_SIX_TAP(w2, "s10", "s11", "s12", "s13", "s14", "s15")

#define DEPTHWISE_PAIR_REVERSED(w0, w1) \
    DEPTHWISE_LOAD("s14") DEPTHWISE_TAP(w0, "s11", "s12", "s13", "s14") DEPTHWISE_TAP(w1, "s10", "s11", "s12", "s13")

#define DEPTHWISE_SINGLE(w0) DEPTHWISE_LOAD("s13") DEPTHWISE_TAP(w0, "s10", "s11", "s12", "s13")

#define DEPTHWISE_NINE(K_ROW) K_ROW("s0", "s1", "s2") K_ROW("s3", "s4", "s5") K_ROW("s6", "s7", "s8")

#define DEPTHWISE_START "vmov.f32 s19, s9\n vmov.f32 s20, s9\n vmov.f32 s21, s9\n vmov.f32 s22, s9\n"
#define DEPTHWISE_START_FIVE "vmov.f32 s18, s9\n" DEPTHWISE_START
#define DEPTHWISE_START_SIX "vmov.f32 s23, s9\n" DEPTHWISE_START_FIVE

#define DEPTHWISE_STORE "vstmia %[out]!, {s19-s22}\n"
#define DEPTHWISE_STORE_FIVE "vstmia %[out]!, {s18-s22}\n"
#define DEPTHWISE_STORE_SIX "vstmia %[out]!, {s18-s23}\n"
#define DEPTHWISE_STORE_SPREAD                                                                          \
    "vstr s19, [%[out]]\n vstr s20, [%[out], #8]\n vstr s21, [%[out], #16]\n vstr s22, [%[out], #24]\n" \
    "add %[out], %[out], #32\n"

/* So many columns at a time; the last ones may go back over some. */
#define DEPTHWISE_PANELS_FROM(STARTED, K_ROWS, STORED, B_TILE)                                                  \
    __asm__ volatile("vldm %[at], {s0-s9}\n"                                                                    \
                     "1: mov %[n], %[tiles]\n"                                                                  \
                     "2: subs %[n], %[n], #1\n itt eq\n"                                                        \
                     "subeq %[b], %[b], %[b_back]\n subeq %[out], %[out], %[out_back]\n"                        \
                     STARTED "mov %[at], %[b]\n" K_ROWS STORED "add %[b], %[b], " B_TILE "\n bne 2b\n"          \
                     "add %[b], %[b], %[b_next]\n add %[out], %[out], %[out_next]\n"                            \
                     "subs %[panels], %[panels], #1\n bne 1b\n"                                                 \
                     : [at] "+&r"(at), [b] "+&r"(b), [out] "+&r"(out), [panels] "+&r"(panels), [n] "=&r"(n)     \
                     : [k_row] "r"(gemm->b_k_row * 4), [tiles] "r"(tiles), [b_back] "r"(back * gemm->b_column), \
                       [out_back] "r"(back * gemm->out_column),                                                 \
                       [b_next] "r"((gemm->b_panel - columns * gemm->b_column) * 4),                            \
                       [out_next] "r"((gemm->out_panel - columns * gemm->out_column) * 4)                       \
                     : FP_REGISTERS, "cc", "memory")

#define DEPTHWISE_PANELS(K_ROWS, STORED, B_TILE) DEPTHWISE_PANELS_FROM(DEPTHWISE_START, K_ROWS, STORED, B_TILE)
/* clang-format on */

/* Windows as a convolution of stride 1 or 2 has them, and its input gradient; that of stride 2 has smaller ones. */
typedef enum depthwise_kernel {
    DEPTHWISE_NONE,
    DEPTHWISE_PLAIN,
    DEPTHWISE_STRIDE_2,
    DEPTHWISE_REVERSED,
    DEPTHWISE_2X2,
    DEPTHWISE_2X1,
    DEPTHWISE_1X2,
    DEPTHWISE_1X1
} depthwise_kernel;

static inline depthwise_kernel depthwise_kernel_of(const poet_gemm *gemm)
{
    const int reversed = gemm->b_tap == -1 && gemm->b_column == 1;
    if (gemm->channels != 1) {
        return DEPTHWISE_NONE;
    }
    if (gemm->k_rows == KERNEL_WIDTH && gemm->taps == KERNEL_WIDTH && gemm->out_column == 1) {
        const int contiguous = gemm->a_tap == 1 && gemm->a_k_row == KERNEL_WIDTH;
        const int forward = gemm->b_tap == 1;
        if (!contiguous) {
            return DEPTHWISE_NONE;
        }
        if (forward && (gemm->b_column == 1 || gemm->b_column == 2)) {
            return gemm->b_column == 1 ? DEPTHWISE_PLAIN : DEPTHWISE_STRIDE_2;
        }
        return reversed ? DEPTHWISE_REVERSED : DEPTHWISE_NONE;
    }
    if (reversed && gemm->out_column == 2 && gemm->k_rows <= 2 && gemm->taps <= 2) {
        static const depthwise_kernel kernels[] = {DEPTHWISE_1X1, DEPTHWISE_1X2, DEPTHWISE_2X1, DEPTHWISE_2X2};
        return kernels[2 * gemm->k_rows + gemm->taps - 3];
    }
    return DEPTHWISE_NONE;
}

static inline int32_t columns_at_a_time(depthwise_kernel kernel, int32_t columns)
{
    if (kernel != DEPTHWISE_PLAIN && kernel != DEPTHWISE_REVERSED) {
        return POET_TILE;
    }
    return columns % 6 == 0 ? 6 : columns % 5 == 0 ? 5 : POET_TILE;
}

static void multiply_depthwise_panels(const poet_gemm *gemm, depthwise_kernel kernel, int32_t columns, int32_t panels,
                                      const float *weights, const float *b, float *out)
{
    const float *at = weights;
    const int32_t width = columns_at_a_time(kernel, columns);
    const int32_t tiles = (columns + width - 1) / width;
    const int32_t back = (tiles * width - columns) * (int32_t)sizeof(float);
    int32_t n;
    if (gemm->b_tap < 0) {
        b -= gemm->taps - 1;
    }
    switch (kernel) {
    case DEPTHWISE_PLAIN:
        if (width == 6) {
            DEPTHWISE_PANELS_FROM(DEPTHWISE_START_SIX, DEPTHWISE_NINE(DEPTHWISE_SIX), DEPTHWISE_STORE_SIX, "#24");
        } else if (width == 5) {
            DEPTHWISE_PANELS_FROM(DEPTHWISE_START_FIVE, DEPTHWISE_NINE(DEPTHWISE_FIVE), DEPTHWISE_STORE_FIVE, "#20");
        } else {
            DEPTHWISE_PANELS(DEPTHWISE_NINE(DEPTHWISE_ROW), DEPTHWISE_STORE, "#16");
        }
        break;
    case DEPTHWISE_STRIDE_2:
        DEPTHWISE_PANELS(DEPTHWISE_NINE(DEPTHWISE_ROW_STRIDE_2), DEPTHWISE_STORE, "#32");
        break;
    case DEPTHWISE_REVERSED:
        if (width == 6) {
            DEPTHWISE_PANELS_FROM(DEPTHWISE_START_SIX, DEPTHWISE_NINE(DEPTHWISE_SIX_REVERSED), DEPTHWISE_STORE_SIX,
                                  "#24");
        } else if (width == 5) {
            DEPTHWISE_PANELS_FROM(DEPTHWISE_START_FIVE, DEPTHWISE_NINE(DEPTHWISE_FIVE_REVERSED), DEPTHWISE_STORE_FIVE,
                                  "#20");
        } else {
            DEPTHWISE_PANELS(DEPTHWISE_NINE(DEPTHWISE_ROW_REVERSED), DEPTHWISE_STORE, "#16");
        }
        break;
    case DEPTHWISE_2X2:
        DEPTHWISE_PANELS(DEPTHWISE_PAIR_REVERSED("s0", "s1") DEPTHWISE_PAIR_REVERSED("s2", "s3"),
                         DEPTHWISE_STORE_SPREAD, "#16");
        break;
    case DEPTHWISE_2X1:
        DEPTHWISE_PANELS(DEPTHWISE_SINGLE("s0") DEPTHWISE_SINGLE("s1"), DEPTHWISE_STORE_SPREAD, "#16");
        break;
    case DEPTHWISE_1X2:
        DEPTHWISE_PANELS(DEPTHWISE_PAIR_REVERSED("s0", "s1"), DEPTHWISE_STORE_SPREAD, "#16");
        break;
    case DEPTHWISE_1X1:
        DEPTHWISE_PANELS(DEPTHWISE_SINGLE("s0"), DEPTHWISE_STORE_SPREAD, "#16");
        break;
    case DEPTHWISE_NONE:
        break;
    }
}

/* One row of weights; says whether it could. */
static int multiply_depthwise(const poet_gemm *gemm, const float *a, float start, const float *b, float *out)
{
    const depthwise_kernel kernel = depthwise_kernel_of(gemm);
    float weights[KERNEL_WEIGHTS + 1]; /* more than a smaller window has: it leaves their registers alone */
    if (kernel == DEPTHWISE_NONE) {
        return 0;
    }
    if (gemm->k_rows == KERNEL_WIDTH) {
        memcpy(weights, a, KERNEL_WEIGHTS * sizeof *a);
    } else {
        for (int32_t i = 0; i < gemm->k_rows; i++) {
            for (int32_t j = 0; j < gemm->taps; j++) {
                weights[i * gemm->taps + j] = a[i * gemm->a_k_row + j * gemm->a_tap];
            }
        }
    }
    weights[KERNEL_WEIGHTS] = start;
    if (gemm->columns >= POET_TILE) {
        multiply_depthwise_panels(gemm, kernel, gemm->columns, gemm->panels, weights, b, out);
        return 1;
    }
    for (int32_t panel = 0; panel < gemm->panels; panel++) {
        float part[2 * POET_TILE];
        multiply_depthwise_panels(gemm, kernel, POET_TILE, 1, weights, b, part);
        for (int32_t j = 0; j < gemm->columns; j++) {
            out[j * gemm->out_column] = part[j * gemm->out_column];
        }
        b += gemm->b_panel;
        out += gemm->out_panel;
    }
    return 1;
}

#endif
