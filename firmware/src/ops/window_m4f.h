/* A 3x3 window over a single channel, as in a depthwise convolution, for the Cortex-M4F. No block of rows shares what is
 * loaded; but the nine weights, or the nine sums of their gradient, stay in registers for a whole channel. */
#ifndef POET_OPS_WINDOW_M4F_H
#define POET_OPS_WINDOW_M4F_H

#include <string.h>

#include "block_walk.h"

#define WINDOW 3

/* Nine weights in s0-s8, what sums begin with in s9, a line of B from s10 on, four sums, four products. */
#define WINDOW_TAP(weight, b0, b1, b2, b3)                                                                      \
    "vmul.f32 s23, " weight ", " b0 "\n vmul.f32 s24, " weight ", " b1 "\n"                                      \
    "vmul.f32 s25, " weight ", " b2 "\n vmul.f32 s26, " weight ", " b3 "\n"                                      \
    "vadd.f32 s19, s19, s23\n vadd.f32 s20, s20, s24\n vadd.f32 s21, s21, s25\n vadd.f32 s22, s22, s26\n"

#define WINDOW_LINE(w0, w1, w2)                                                                                 \
    "vldm %[at], {s10-s15}\n add %[at], %[at], %[line]\n" WINDOW_TAP(w0, "s10", "s11", "s12", "s13")             \
    WINDOW_TAP(w1, "s11", "s12", "s13", "s14") WINDOW_TAP(w2, "s12", "s13", "s14", "s15")

#define WINDOW_LINE_REVERSED(w0, w1, w2)                                                                        \
    "vldm %[at], {s10-s15}\n add %[at], %[at], %[line]\n" WINDOW_TAP(w0, "s12", "s13", "s14", "s15")             \
    WINDOW_TAP(w1, "s11", "s12", "s13", "s14") WINDOW_TAP(w2, "s10", "s11", "s12", "s13")

#define WINDOW_LINE_APART(w0, w1, w2)                                                                           \
    "vldm %[at], {s10-s18}\n add %[at], %[at], %[line]\n" WINDOW_TAP(w0, "s10", "s12", "s14", "s16")             \
    WINDOW_TAP(w1, "s11", "s13", "s15", "s17") WINDOW_TAP(w2, "s12", "s14", "s16", "s18")

/* Four columns at a time; the last four may go back over some. */
#define WINDOW_STRIPS(LINE, B_BLOCK)                                                                            \
    __asm__ volatile("vldm %[at], {s0-s9}\n"                                                                     \
                     "1: mov %[n], %[blocks]\n"                                                                  \
                     "2: subs %[n], %[n], #1\n itt eq\n"                                                         \
                     "subeq %[b], %[b], %[b_back]\n subeq %[out], %[out], %[out_back]\n"                         \
                     "vmov.f32 s19, s9\n vmov.f32 s20, s9\n vmov.f32 s21, s9\n vmov.f32 s22, s9\n"               \
                     "mov %[at], %[b]\n" LINE("s0", "s1", "s2") LINE("s3", "s4", "s5") LINE("s6", "s7", "s8")    \
                     "vstmia %[out]!, {s19-s22}\n add %[b], %[b], " B_BLOCK "\n bne 2b\n"                        \
                     "add %[b], %[b], %[b_next]\n add %[out], %[out], %[out_next]\n"                             \
                     "subs %[strips], %[strips], #1\n bne 1b\n"                                                  \
                     : [at] "+&r"(at), [b] "+&r"(b), [out] "+&r"(out), [strips] "+&r"(strips), [n] "=&r"(n)      \
                     : [line] "r"(block->b_line * 4), [blocks] "r"(blocks), [b_back] "r"(out_back * block->b_column), \
                       [out_back] "r"(out_back), [b_next] "r"((block->b_strip - columns * block->b_column) * 4), \
                       [out_next] "r"((block->out_strip - columns) * 4)                                          \
                     : FP_REGISTERS, "cc", "memory")

static void multiply_window_strips(const poet_block *block, int32_t columns, int32_t strips, const float *weights,
                                   const float *b, float *out)
{
    const float *at = weights;
    const int32_t blocks = (columns + POET_BLOCK - 1) / POET_BLOCK;
    const int32_t out_back = (blocks * POET_BLOCK - columns) * (int32_t)sizeof(float);
    int32_t n;
    if (block->b_tap < 0) {
        b -= WINDOW - 1;
        WINDOW_STRIPS(WINDOW_LINE_REVERSED, "#16");
    } else if (block->b_column == 1) {
        WINDOW_STRIPS(WINDOW_LINE, "#16");
    } else {
        WINDOW_STRIPS(WINDOW_LINE_APART, "#32");
    }
}

static inline int is_window(const poet_block *block)
{
    const int steps = block->b_tap == 1 ? block->b_column == 1 || block->b_column == 2
                                        : block->b_tap == -1 && block->b_column == 1;
    return steps && block->channels == 1 && block->lines == WINDOW && block->taps == WINDOW && block->a_tap == 1 &&
           block->a_line == WINDOW && block->out_column == 1;
}

/* One row of weights; says whether it could. */
static int multiply_window(const poet_block *block, const float *a, float start, const float *b, float *out)
{
    float weights[WINDOW * WINDOW + 1];
    if (!is_window(block)) {
        return 0;
    }
    memcpy(weights, a, WINDOW * WINDOW * sizeof *a);
    weights[WINDOW * WINDOW] = start;
    if (block->columns >= POET_BLOCK) {
        multiply_window_strips(block, block->columns, block->strips, weights, b, out);
        return 1;
    }
    for (int32_t strip = 0; strip < block->strips; strip++) {
        float part[POET_BLOCK];
        multiply_window_strips(block, POET_BLOCK, 1, weights, b, part);
        for (int32_t j = 0; j < block->columns; j++) {
            out[j] = part[j];
        }
        b += block->b_strip;
        out += block->out_strip;
    }
    return 1;
}

/* Nine sums in s0-s8; of each line four taps of A in s9-s12, and what the window sees of a line of B from s13 on. */
#define NINE_ADD(a, x0, x1, x2, c0, c1, c2)                                                                     \
    "vmul.f32 s22, " a ", " x0 "\n vmul.f32 s23, " a ", " x1 "\n vmul.f32 s24, " a ", " x2 "\n"                   \
    "vadd.f32 " c0 ", " c0 ", s22\n vadd.f32 " c1 ", " c1 ", s23\n vadd.f32 " c2 ", " c2 ", s24\n"

#define NINE_LINE(b, c0, c1, c2)                                                                                \
    "vldm %[" b "], {s13-s18}\n add %[" b "], %[" b "], #16\n"                                                   \
    NINE_ADD("s9", "s13", "s14", "s15", c0, c1, c2) NINE_ADD("s10", "s14", "s15", "s16", c0, c1, c2)            \
    NINE_ADD("s11", "s15", "s16", "s17", c0, c1, c2) NINE_ADD("s12", "s16", "s17", "s18", c0, c1, c2)

#define NINE_LINE_APART(b, c0, c1, c2)                                                                          \
    "vldm %[" b "], {s13-s21}\n add %[" b "], %[" b "], #32\n"                                                   \
    NINE_ADD("s9", "s13", "s14", "s15", c0, c1, c2) NINE_ADD("s10", "s15", "s16", "s17", c0, c1, c2)            \
    NINE_ADD("s11", "s17", "s18", "s19", c0, c1, c2) NINE_ADD("s12", "s19", "s20", "s21", c0, c1, c2)

#define NINE_ONE(b, c0, c1, c2)                                                                                 \
    "vldm %[" b "], {s13-s15}\n add %[" b "], %[" b "], %[tap]\n" NINE_ADD("s9", "s13", "s14", "s15", c0, c1, c2)

#define NINE_ROWS(LINE) LINE("b0", "s0", "s1", "s2") LINE("b1", "s3", "s4", "s5") LINE("b2", "s6", "s7", "s8")

#define NINE_SUMS(LINE)                                                                                         \
    __asm__ volatile("vldm %[out], {s0-s8}\n"                                                                    \
                     "1: subs %[n], %[taps], #4\n blt 3f\n"                                                      \
                     "2: vldmia %[a]!, {s9-s12}\n" NINE_ROWS(LINE) "subs %[n], %[n], #4\n bge 2b\n"              \
                     "3: adds %[n], %[n], #4\n beq 5f\n"                                                         \
                     "4: vldmia %[a]!, {s9}\n" NINE_ROWS(NINE_ONE) "subs %[n], %[n], #1\n bne 4b\n"              \
                     "5: add %[b0], %[b0], %[gap]\n add %[b1], %[b1], %[gap]\n add %[b2], %[b2], %[gap]\n"       \
                     "subs %[lines], %[lines], #1\n bne 1b\n"                                                    \
                     "vstm %[out], {s0-s8}\n"                                                                    \
                     : [a] "+&r"(a), [b0] "+&r"(b0), [b1] "+&r"(b1), [b2] "+&r"(b2), [lines] "+&r"(lines), [n] "=&r"(n) \
                     : [out] "r"(out), [taps] "r"(dot->taps), [tap] "r"(dot->b_tap * 4),                         \
                       [gap] "r"((dot->b_line - dot->taps * dot->b_tap) * 4)                                     \
                     : FP_REGISTERS, "cc", "memory")

/* Whether nine columns are the places of a window in three lines. */
static inline int are_window(const poet_dot *dot, const float *const *b)
{
    for (int32_t j = 0; j < WINDOW * WINDOW; j += WINDOW) {
        if (b[j + 1] != b[j] + 1 || b[j + 2] != b[j] + 2) {
            return 0;
        }
    }
    return dot->b_tap == 1 || dot->b_tap == 2;
}

/* Adds the products of one row with them. */
static void add_dot_window(const poet_dot *dot, const float *a, const float *const *b, float *out)
{
    const float *b0 = b[0], *b1 = b[WINDOW], *b2 = b[2 * WINDOW];
    int32_t lines = dot->lines, n;
    if (dot->b_tap == 1) {
        NINE_SUMS(NINE_LINE);
    } else {
        NINE_SUMS(NINE_LINE_APART);
    }
}

#endif
