/* Small windows over a single channel, as in a depthwise convolution, for the Cortex-M4F. No block of rows shares what is
 * loaded; but the weights, or the nine sums of their gradient, stay in registers for a whole channel. */
#ifndef POET_OPS_WINDOW_M4F_H
#define POET_OPS_WINDOW_M4F_H

#include <string.h>

#include "block_walk.h"

#define WINDOW 3

/* Up to nine weights in s0-s8, what sums begin with in s9, a line of B from s10 on, four sums, four products. */
#define WINDOW_TAP(weight, b0, b1, b2, b3)                                                                      \
    "vmul.f32 s23, " weight ", " b0 "\n vmul.f32 s24, " weight ", " b1 "\n"                                      \
    "vmul.f32 s25, " weight ", " b2 "\n vmul.f32 s26, " weight ", " b3 "\n"                                      \
    "vadd.f32 s19, s19, s23\n vadd.f32 s20, s20, s24\n vadd.f32 s21, s21, s25\n vadd.f32 s22, s22, s26\n"

#define WINDOW_LOAD(last) "vldm %[at], {s10-" last "}\n add %[at], %[at], %[line]\n"

#define WINDOW_LINE(w0, w1, w2)                                                                                 \
    WINDOW_LOAD("s15") WINDOW_TAP(w0, "s10", "s11", "s12", "s13")                                               \
    WINDOW_TAP(w1, "s11", "s12", "s13", "s14") WINDOW_TAP(w2, "s12", "s13", "s14", "s15")

#define WINDOW_LINE_APART(w0, w1, w2)                                                                           \
    WINDOW_LOAD("s18") WINDOW_TAP(w0, "s10", "s12", "s14", "s16")                                               \
    WINDOW_TAP(w1, "s11", "s13", "s15", "s17") WINDOW_TAP(w2, "s12", "s14", "s16", "s18")

/* Taps of B descend. */
#define WINDOW_LINE_REVERSED(w0, w1, w2)                                                                        \
    WINDOW_LOAD("s15") WINDOW_TAP(w0, "s12", "s13", "s14", "s15")                                               \
    WINDOW_TAP(w1, "s11", "s12", "s13", "s14") WINDOW_TAP(w2, "s10", "s11", "s12", "s13")

#define WINDOW_PAIR_REVERSED(w0, w1)                                                                            \
    WINDOW_LOAD("s14") WINDOW_TAP(w0, "s11", "s12", "s13", "s14") WINDOW_TAP(w1, "s10", "s11", "s12", "s13")

#define WINDOW_SINGLE(w0) WINDOW_LOAD("s13") WINDOW_TAP(w0, "s10", "s11", "s12", "s13")

#define WINDOW_NINE(LINE) LINE("s0", "s1", "s2") LINE("s3", "s4", "s5") LINE("s6", "s7", "s8")

#define WINDOW_STORE "vstmia %[out]!, {s19-s22}\n"
#define WINDOW_STORE_APART                                                                                      \
    "vstr s19, [%[out]]\n vstr s20, [%[out], #8]\n vstr s21, [%[out], #16]\n vstr s22, [%[out], #24]\n"         \
    "add %[out], %[out], #32\n"

/* Four columns at a time; the last four may go back over some. */
#define WINDOW_STRIPS(LINES, STORED, B_BLOCK)                                                                   \
    __asm__ volatile("vldm %[at], {s0-s9}\n"                                                                     \
                     "1: mov %[n], %[blocks]\n"                                                                  \
                     "2: subs %[n], %[n], #1\n itt eq\n"                                                         \
                     "subeq %[b], %[b], %[b_back]\n subeq %[out], %[out], %[out_back]\n"                         \
                     "vmov.f32 s19, s9\n vmov.f32 s20, s9\n vmov.f32 s21, s9\n vmov.f32 s22, s9\n"               \
                     "mov %[at], %[b]\n" LINES STORED "add %[b], %[b], " B_BLOCK "\n bne 2b\n"                   \
                     "add %[b], %[b], %[b_next]\n add %[out], %[out], %[out_next]\n"                             \
                     "subs %[strips], %[strips], #1\n bne 1b\n"                                                  \
                     : [at] "+&r"(at), [b] "+&r"(b), [out] "+&r"(out), [strips] "+&r"(strips), [n] "=&r"(n)      \
                     : [line] "r"(block->b_line * 4), [blocks] "r"(blocks), [b_back] "r"(back * block->b_column), \
                       [out_back] "r"(back * block->out_column),                                                 \
                       [b_next] "r"((block->b_strip - columns * block->b_column) * 4),                           \
                       [out_next] "r"((block->out_strip - columns * block->out_column) * 4)                      \
                     : FP_REGISTERS, "cc", "memory")

/* Windows as a convolution of stride 1 or 2 has them, and its input gradient; that of stride 2 has smaller ones. */
typedef enum window_kind {
    WINDOW_NONE,
    WINDOW_PLAIN,
    WINDOW_APART,
    WINDOW_REVERSED,
    WINDOW_2X2,
    WINDOW_2X1,
    WINDOW_1X2,
    WINDOW_1X1
} window_kind;

static inline window_kind window_kind_of(const poet_block *block)
{
    const int reversed = block->b_tap == -1 && block->b_column == 1;
    if (block->channels != 1) {
        return WINDOW_NONE;
    }
    if (block->lines == WINDOW && block->taps == WINDOW && block->out_column == 1) {
        const int contiguous = block->a_tap == 1 && block->a_line == WINDOW;
        const int forward = block->b_tap == 1;
        if (!contiguous) {
            return WINDOW_NONE;
        }
        if (forward && (block->b_column == 1 || block->b_column == 2)) {
            return block->b_column == 1 ? WINDOW_PLAIN : WINDOW_APART;
        }
        return reversed ? WINDOW_REVERSED : WINDOW_NONE;
    }
    if (reversed && block->out_column == 2 && block->lines <= 2 && block->taps <= 2) {
        static const window_kind kinds[] = {WINDOW_1X1, WINDOW_1X2, WINDOW_2X1, WINDOW_2X2};
        return kinds[2 * block->lines + block->taps - 3];
    }
    return WINDOW_NONE;
}

static void multiply_window_strips(const poet_block *block, window_kind kind, int32_t columns, int32_t strips,
                                   const float *weights, const float *b, float *out)
{
    const float *at = weights;
    const int32_t blocks = (columns + POET_BLOCK - 1) / POET_BLOCK;
    const int32_t back = (blocks * POET_BLOCK - columns) * (int32_t)sizeof(float);
    int32_t n;
    if (block->b_tap < 0) {
        b -= block->taps - 1;
    }
    switch (kind) {
    case WINDOW_PLAIN:
        WINDOW_STRIPS(WINDOW_NINE(WINDOW_LINE), WINDOW_STORE, "#16");
        break;
    case WINDOW_APART:
        WINDOW_STRIPS(WINDOW_NINE(WINDOW_LINE_APART), WINDOW_STORE, "#32");
        break;
    case WINDOW_REVERSED:
        WINDOW_STRIPS(WINDOW_NINE(WINDOW_LINE_REVERSED), WINDOW_STORE, "#16");
        break;
    case WINDOW_2X2:
        WINDOW_STRIPS(WINDOW_PAIR_REVERSED("s0", "s1") WINDOW_PAIR_REVERSED("s2", "s3"), WINDOW_STORE_APART, "#16");
        break;
    case WINDOW_2X1:
        WINDOW_STRIPS(WINDOW_SINGLE("s0") WINDOW_SINGLE("s1"), WINDOW_STORE_APART, "#16");
        break;
    case WINDOW_1X2:
        WINDOW_STRIPS(WINDOW_PAIR_REVERSED("s0", "s1"), WINDOW_STORE_APART, "#16");
        break;
    case WINDOW_1X1:
        WINDOW_STRIPS(WINDOW_SINGLE("s0"), WINDOW_STORE_APART, "#16");
        break;
    case WINDOW_NONE:
        break;
    }
}

/* One row of weights; says whether it could. */
static int multiply_window(const poet_block *block, const float *a, float start, const float *b, float *out)
{
    const window_kind kind = window_kind_of(block);
    float weights[WINDOW * WINDOW + 1]; /* more than a smaller window has: it leaves their registers alone */
    if (kind == WINDOW_NONE) {
        return 0;
    }
    if (block->lines == WINDOW) {
        memcpy(weights, a, WINDOW * WINDOW * sizeof *a);
    } else {
        for (int32_t i = 0; i < block->lines; i++) {
            for (int32_t j = 0; j < block->taps; j++) {
                weights[i * block->taps + j] = a[i * block->a_line + j * block->a_tap];
            }
        }
    }
    weights[WINDOW * WINDOW] = start;
    if (block->columns >= POET_BLOCK) {
        multiply_window_strips(block, kind, block->columns, block->strips, weights, b, out);
        return 1;
    }
    for (int32_t strip = 0; strip < block->strips; strip++) {
        float part[2 * POET_BLOCK];
        multiply_window_strips(block, kind, POET_BLOCK, 1, weights, b, part);
        for (int32_t j = 0; j < block->columns; j++) {
            out[j * block->out_column] = part[j * block->out_column];
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
