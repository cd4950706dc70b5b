/* SPDX-License-Identifier: Apache-2.0 */
/* Small windows, for the Cortex-M4F. In a depthwise convolution no block of rows shares what is loaded; but the weights
 * stay in registers for a whole channel. In the weight gradient of any 3x3 kernel the nine sums of one or two rows do,
 * and what the window sees. */
#ifndef POET_OPS_WINDOW_M4F_H
#define POET_OPS_WINDOW_M4F_H

#include <string.h>

#include "block_walk.h"

#define WINDOW 3

/* Assembler, laid out by hand. */
/* clang-format off */
/* Up to nine weights in s0-s8, what sums begin with in s9, a line of B from s10 on, four sums, four products; or five
 * or six of both, where columns come by fives or sixes. */
#define WINDOW_TAP(weight, b0, b1, b2, b3)                                  \
    "vmul.f32 s23, " weight ", " b0 "\n vmul.f32 s24, " weight ", " b1 "\n" \
    "vmul.f32 s25, " weight ", " b2 "\n vmul.f32 s26, " weight ", " b3 "\n" \
    "vadd.f32 s19, s19, s23\n vadd.f32 s20, s20, s24\n vadd.f32 s21, s21, s25\n vadd.f32 s22, s22, s26\n"

#define WINDOW_LOAD(last) "vldm %[at], {s10-" last "}\n add %[at], %[at], %[line]\n"

#define WINDOW_LINE(w0, w1, w2)                                   \
    WINDOW_LOAD("s15") WINDOW_TAP(w0, "s10", "s11", "s12", "s13") \
    WINDOW_TAP(w1, "s11", "s12", "s13", "s14") WINDOW_TAP(w2, "s12", "s13", "s14", "s15")

#define WINDOW_LINE_APART(w0, w1, w2)                             \
    WINDOW_LOAD("s18") WINDOW_TAP(w0, "s10", "s12", "s14", "s16") \
    WINDOW_TAP(w1, "s11", "s13", "s15", "s17") WINDOW_TAP(w2, "s12", "s14", "s16", "s18")

/* Taps of B descend. */
#define WINDOW_LINE_REVERSED(w0, w1, w2)                          \
    WINDOW_LOAD("s15") WINDOW_TAP(w0, "s12", "s13", "s14", "s15") \
    WINDOW_TAP(w1, "s11", "s12", "s13", "s14") WINDOW_TAP(w2, "s10", "s11", "s12", "s13")

#define WINDOW_FIVE_TAP(weight, b0, b1, b2, b3, b4)                                                            \
    "vmul.f32 s24, " weight ", " b0 "\n vmul.f32 s25, " weight ", " b1 "\n vmul.f32 s26, " weight ", " b2 "\n" \
    "vmul.f32 s27, " weight ", " b3 "\n vmul.f32 s28, " weight ", " b4 "\n"                                    \
    "vadd.f32 s18, s18, s24\n vadd.f32 s19, s19, s25\n vadd.f32 s20, s20, s26\n"                               \
    "vadd.f32 s21, s21, s27\n vadd.f32 s22, s22, s28\n"

#define WINDOW_FIVE(w0, w1, w2)                                               \
    WINDOW_LOAD("s16") WINDOW_FIVE_TAP(w0, "s10", "s11", "s12", "s13", "s14") \
    WINDOW_FIVE_TAP(w1, "s11", "s12", "s13", "s14", "s15") WINDOW_FIVE_TAP(w2, "s12", "s13", "s14", "s15", "s16")

#define WINDOW_FIVE_REVERSED(w0, w1, w2)                                      \
    WINDOW_LOAD("s16") WINDOW_FIVE_TAP(w0, "s12", "s13", "s14", "s15", "s16") \
    WINDOW_FIVE_TAP(w1, "s11", "s12", "s13", "s14", "s15") WINDOW_FIVE_TAP(w2, "s10", "s11", "s12", "s13", "s14")

#define WINDOW_SIX_TAP(weight, b0, b1, b2, b3, b4, b5) \
    "vmul.f32 s29, " weight ", " b5 "\n" WINDOW_FIVE_TAP(weight, b0, b1, b2, b3, b4) "vadd.f32 s23, s23, s29\n"

#define WINDOW_SIX(w0, w1, w2)                                                      \
    WINDOW_LOAD("s17") WINDOW_SIX_TAP(w0, "s10", "s11", "s12", "s13", "s14", "s15") \
    WINDOW_SIX_TAP(w1, "s11", "s12", "s13", "s14", "s15", "s16")                    \
    WINDOW_SIX_TAP(w2, "s12", "s13", "s14", "s15", "s16", "s17")

#define WINDOW_SIX_REVERSED(w0, w1, w2)                                             \
    WINDOW_LOAD("s17") WINDOW_SIX_TAP(w0, "s12", "s13", "s14", "s15", "s16", "s17") \
    WINDOW_SIX_TAP(w1, "s11", "s12", "s13", "s14", "s15", "s16")                    \
    WINDOW_SIX_TAP(w2, "s10", "s11", "s12", "s13", "s14", "s15")

#define WINDOW_PAIR_REVERSED(w0, w1) \
    WINDOW_LOAD("s14") WINDOW_TAP(w0, "s11", "s12", "s13", "s14") WINDOW_TAP(w1, "s10", "s11", "s12", "s13")

#define WINDOW_SINGLE(w0) WINDOW_LOAD("s13") WINDOW_TAP(w0, "s10", "s11", "s12", "s13")

#define WINDOW_NINE(LINE) LINE("s0", "s1", "s2") LINE("s3", "s4", "s5") LINE("s6", "s7", "s8")

#define WINDOW_START "vmov.f32 s19, s9\n vmov.f32 s20, s9\n vmov.f32 s21, s9\n vmov.f32 s22, s9\n"
#define WINDOW_START_FIVE "vmov.f32 s18, s9\n" WINDOW_START
#define WINDOW_START_SIX "vmov.f32 s23, s9\n" WINDOW_START_FIVE

#define WINDOW_STORE "vstmia %[out]!, {s19-s22}\n"
#define WINDOW_STORE_FIVE "vstmia %[out]!, {s18-s22}\n"
#define WINDOW_STORE_SIX "vstmia %[out]!, {s18-s23}\n"
#define WINDOW_STORE_APART                                                                              \
    "vstr s19, [%[out]]\n vstr s20, [%[out], #8]\n vstr s21, [%[out], #16]\n vstr s22, [%[out], #24]\n" \
    "add %[out], %[out], #32\n"

/* So many columns at a time; the last ones may go back over some. */
#define WINDOW_STRIPS_FROM(STARTED, LINES, STORED, B_BLOCK)                                                       \
    __asm__ volatile("vldm %[at], {s0-s9}\n"                                                                      \
                     "1: mov %[n], %[blocks]\n"                                                                   \
                     "2: subs %[n], %[n], #1\n itt eq\n"                                                          \
                     "subeq %[b], %[b], %[b_back]\n subeq %[out], %[out], %[out_back]\n"                          \
                     STARTED "mov %[at], %[b]\n" LINES STORED "add %[b], %[b], " B_BLOCK "\n bne 2b\n"            \
                     "add %[b], %[b], %[b_next]\n add %[out], %[out], %[out_next]\n"                              \
                     "subs %[strips], %[strips], #1\n bne 1b\n"                                                   \
                     : [at] "+&r"(at), [b] "+&r"(b), [out] "+&r"(out), [strips] "+&r"(strips), [n] "=&r"(n)       \
                     : [line] "r"(block->b_line * 4), [blocks] "r"(blocks), [b_back] "r"(back * block->b_column), \
                       [out_back] "r"(back * block->out_column),                                                  \
                       [b_next] "r"((block->b_strip - columns * block->b_column) * 4),                            \
                       [out_next] "r"((block->out_strip - columns * block->out_column) * 4)                       \
                     : FP_REGISTERS, "cc", "memory")

#define WINDOW_STRIPS(LINES, STORED, B_BLOCK) WINDOW_STRIPS_FROM(WINDOW_START, LINES, STORED, B_BLOCK)
/* clang-format on */

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

static inline int32_t columns_at_a_time(window_kind kind, int32_t columns)
{
    if (kind != WINDOW_PLAIN && kind != WINDOW_REVERSED) {
        return POET_BLOCK;
    }
    return columns % 6 == 0 ? 6 : columns % 5 == 0 ? 5 : POET_BLOCK;
}

static void multiply_window_strips(const poet_block *block, window_kind kind, int32_t columns, int32_t strips,
                                   const float *weights, const float *b, float *out)
{
    const float *at = weights;
    const int32_t width = columns_at_a_time(kind, columns);
    const int32_t blocks = (columns + width - 1) / width;
    const int32_t back = (blocks * width - columns) * (int32_t)sizeof(float);
    int32_t n;
    if (block->b_tap < 0) {
        b -= block->taps - 1;
    }
    switch (kind) {
    case WINDOW_PLAIN:
        if (width == 6) {
            WINDOW_STRIPS_FROM(WINDOW_START_SIX, WINDOW_NINE(WINDOW_SIX), WINDOW_STORE_SIX, "#24");
        } else if (width == 5) {
            WINDOW_STRIPS_FROM(WINDOW_START_FIVE, WINDOW_NINE(WINDOW_FIVE), WINDOW_STORE_FIVE, "#20");
        } else {
            WINDOW_STRIPS(WINDOW_NINE(WINDOW_LINE), WINDOW_STORE, "#16");
        }
        break;
    case WINDOW_APART:
        WINDOW_STRIPS(WINDOW_NINE(WINDOW_LINE_APART), WINDOW_STORE, "#32");
        break;
    case WINDOW_REVERSED:
        if (width == 6) {
            WINDOW_STRIPS_FROM(WINDOW_START_SIX, WINDOW_NINE(WINDOW_SIX_REVERSED), WINDOW_STORE_SIX, "#24");
        } else if (width == 5) {
            WINDOW_STRIPS_FROM(WINDOW_START_FIVE, WINDOW_NINE(WINDOW_FIVE_REVERSED), WINDOW_STORE_FIVE, "#20");
        } else {
            WINDOW_STRIPS(WINDOW_NINE(WINDOW_LINE_REVERSED), WINDOW_STORE, "#16");
        }
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

/* Assembler, laid out by hand. */
/* clang-format off */
/* Nine sums in s0-s8; of each line four taps of A in s9-s12, and what the window sees of a line of B from s13 on. */
#define NINE_ADD(a, x0, x1, x2, c0, c1, c2)                                                     \
    "vmul.f32 s22, " a ", " x0 "\n vmul.f32 s23, " a ", " x1 "\n vmul.f32 s24, " a ", " x2 "\n" \
    "vadd.f32 " c0 ", " c0 ", s22\n vadd.f32 " c1 ", " c1 ", s23\n vadd.f32 " c2 ", " c2 ", s24\n"

#define NINE_LINE(b, c0, c1, c2)                                                                     \
    "vldm %[" b "], {s13-s18}\n add %[" b "], %[" b "], #16\n"                                       \
    NINE_ADD("s9", "s13", "s14", "s15", c0, c1, c2) NINE_ADD("s10", "s14", "s15", "s16", c0, c1, c2) \
    NINE_ADD("s11", "s15", "s16", "s17", c0, c1, c2) NINE_ADD("s12", "s16", "s17", "s18", c0, c1, c2)

#define NINE_LINE_APART(b, c0, c1, c2)                                                               \
    "vldm %[" b "], {s13-s21}\n add %[" b "], %[" b "], #32\n"                                       \
    NINE_ADD("s9", "s13", "s14", "s15", c0, c1, c2) NINE_ADD("s10", "s15", "s16", "s17", c0, c1, c2) \
    NINE_ADD("s11", "s17", "s18", "s19", c0, c1, c2) NINE_ADD("s12", "s19", "s20", "s21", c0, c1, c2)

#define NINE_ONE(b, c0, c1, c2) \
    "vldm %[" b "], {s13-s15}\n add %[" b "], %[" b "], %[tap]\n" NINE_ADD("s9", "s13", "s14", "s15", c0, c1, c2)

#define NINE_ROWS(LINE) LINE("b0", "s0", "s1", "s2") LINE("b1", "s3", "s4", "s5") LINE("b2", "s6", "s7", "s8")

#define NINE_SUMS(LINE)                                                                                    \
    __asm__ volatile("vldm %[out], {s0-s8}\n"                                                              \
                     "1: subs %[n], %[taps], #4\n blt 3f\n"                                                \
                     "2: vldmia %[a]!, {s9-s12}\n" NINE_ROWS(LINE) "subs %[n], %[n], #4\n bge 2b\n"        \
                     "3: adds %[n], %[n], #4\n beq 5f\n"                                                   \
                     "4: vldmia %[a]!, {s9}\n" NINE_ROWS(NINE_ONE) "subs %[n], %[n], #1\n bne 4b\n"        \
                     "5: add %[b0], %[b0], %[gap]\n add %[b1], %[b1], %[gap]\n add %[b2], %[b2], %[gap]\n" \
                     "subs %[lines], %[lines], #1\n bne 1b\n"                                              \
                     "vstm %[out], {s0-s8}\n"                                                              \
                     : [a] "+&r"(a), [b0] "+&r"(b0), [b1] "+&r"(b1), [b2] "+&r"(b2),                       \
                       [lines] "+&r"(lines), [n] "=&r"(n)                                                  \
                     : [out] "r"(out), [taps] "r"(dot->taps), [tap] "r"(dot->b_tap * 4),                   \
                       [gap] "r"((dot->b_line - dot->taps * dot->b_tap) * 4)                               \
                     : FP_REGISTERS, "cc", "memory")

/* The same of two rows at once, whose sums are in s0-s8 and s9-s17: a window in s18-s26 stays in registers and moves
 * along its three lines, so that a position loads three elements of B, or six where the windows are two apart. */
#define WINDOWS_ADD(a, x0, x1, x2, c0, c1, c2)                                                  \
    "vmul.f32 s29, " a ", " x0 "\n vmul.f32 s30, " a ", " x1 "\n vmul.f32 s31, " a ", " x2 "\n" \
    "vadd.f32 " c0 ", " c0 ", s29\n vadd.f32 " c1 ", " c1 ", s30\n vadd.f32 " c2 ", " c2 ", s31\n"

#define WINDOWS_LINE(x0, x1, x2, c0, c1, c2, d0, d1, d2) \
    WINDOWS_ADD("s27", x0, x1, x2, c0, c1, c2) WINDOWS_ADD("s28", x0, x1, x2, d0, d1, d2)

#define WINDOWS_PLACE(a_at, LOADS, x0, x1, x2, y0, y1, y2, z0, z1, z2)    \
    "vldr s27, [%[a0], #" a_at "]\n vldr s28, [%[a1], #" a_at "]\n" LOADS \
    WINDOWS_LINE(x0, x1, x2, "s0", "s1", "s2", "s9", "s10", "s11")        \
    WINDOWS_LINE(y0, y1, y2, "s3", "s4", "s5", "s12", "s13", "s14")       \
    WINDOWS_LINE(z0, z1, z2, "s6", "s7", "s8", "s15", "s16", "s17")

#define WINDOWS_LOAD(x, y, z, at) \
    "vldr " x ", [%[b0], #" at "]\n vldr " y ", [%[b1], #" at "]\n vldr " z ", [%[b2], #" at "]\n"

/* The element that was first becomes the last one; after three positions all are back in their registers. */
#define WINDOWS_FIRST(a_at, at)                                \
    WINDOWS_PLACE(a_at, WINDOWS_LOAD("s20", "s23", "s26", at), \
                  "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26")
#define WINDOWS_SECOND(a_at, at)                               \
    WINDOWS_PLACE(a_at, WINDOWS_LOAD("s18", "s21", "s24", at), \
                  "s19", "s20", "s18", "s22", "s23", "s21", "s25", "s26", "s24")
#define WINDOWS_THIRD(a_at, at)                                \
    WINDOWS_PLACE(a_at, WINDOWS_LOAD("s19", "s22", "s25", at), \
                  "s20", "s18", "s19", "s23", "s21", "s22", "s26", "s24", "s25")

/* Two apart, the last element becomes the first one, and after two positions all are back. */
#define WINDOWS_EVEN(a_at, at, next_at)                                                                   \
    WINDOWS_PLACE(a_at, WINDOWS_LOAD("s19", "s22", "s25", at) WINDOWS_LOAD("s20", "s23", "s26", next_at), \
                  "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26")
#define WINDOWS_ODD(a_at, at, next_at)                                                                    \
    WINDOWS_PLACE(a_at, WINDOWS_LOAD("s19", "s22", "s25", at) WINDOWS_LOAD("s18", "s21", "s24", next_at), \
                  "s20", "s19", "s18", "s23", "s22", "s21", "s26", "s25", "s24")

#define WINDOWS_FOUR_APART \
    WINDOWS_EVEN("0", "4", "8") WINDOWS_ODD("4", "12", "16") \
    WINDOWS_EVEN("8", "20", "24") WINDOWS_ODD("12", "28", "32")
#define WINDOWS_LEFT_APART \
    WINDOWS_EVEN("0", "4", "8") "cmp %[n], #2\n blt 5f\n" \
    WINDOWS_ODD("4", "12", "16") "beq 5f\n" WINDOWS_EVEN("8", "20", "24")

#define WINDOWS_ADVANCE(a_by, b_by)                             \
    "add %[a0], %[a0], " a_by "\n add %[a1], %[a1], " a_by "\n" \
    "add %[b0], %[b0], " b_by "\n add %[b1], %[b1], " b_by "\n add %[b2], %[b2], " b_by "\n"

/* What the assembly reads by offset. */
typedef struct windows_walk {
    const float *const *b;
    int32_t lines, out_row_bytes;
    int32_t a_pair_bytes; /* from behind a row's last tap to the row two further down */
} windows_walk;

#define WINDOWS_OUT(MOVE) \
    "ldr %[t], [%[w], %[out_row]]\n add %[t], %[out], %[t]\n" MOVE " %[out], {s0-s8}\n" MOVE " %[t], {s9-s17}\n"

/* For pairs of rows one below the other: `period` positions at a time, then those that are left. */
#define WINDOWS_SUMS(PRELOAD, period, POSITIONS, a_by, b_by, LEFT)                                          \
    __asm__ volatile("7:\n" WINDOWS_OUT("vldm")                                                             \
                     "ldr %[n], [%[w], %[b]]\n ldr %[b0], [%[n]]\n ldr %[b1], [%[n], #12]\n"                \
                     "ldr %[b2], [%[n], #24]\n ldr %[t], [%[w], %[lines]]\n"                                \
                     "1:\n" PRELOAD "subs %[n], %[taps], #" period "\n blt 3f\n"                            \
                     "2:\n" POSITIONS WINDOWS_ADVANCE(a_by, b_by) "subs %[n], %[n], #" period "\n bge 2b\n" \
                     "3: adds %[n], %[n], #" period "\n beq 5f\n" LEFT                                      \
                     "5: add %[a0], %[a0], %[n], lsl #2\n add %[a1], %[a1], %[n], lsl #2\n"                 \
                     "add %[b0], %[b0], %[gap]\n add %[b1], %[b1], %[gap]\n add %[b2], %[b2], %[gap]\n"     \
                     "subs %[t], %[t], #1\n bne 1b\n" WINDOWS_OUT("vstm")                                   \
                     "ldr %[n], [%[w], %[a_pair]]\n add %[a0], %[a0], %[n]\n add %[a1], %[a1], %[n]\n"      \
                     "ldr %[n], [%[w], %[out_row]]\n add %[out], %[out], %[n], lsl #1\n"                    \
                     "subs %[pairs], %[pairs], #1\n bne 7b\n"                                               \
                     : [a0] "+&r"(a0), [a1] "+&r"(a1), [b0] "=&r"(b0), [b1] "=&r"(b1), [b2] "=&r"(b2),      \
                       [n] "=&r"(n), [t] "=&r"(t), [out] "+&r"(out), [pairs] "+&r"(pairs)                   \
                     : [w] "r"(&walk), [taps] "r"(dot->taps), [gap] "r"(gap_bytes), WINDOWS_AT(b, b),       \
                       WINDOWS_AT(lines, lines), WINDOWS_AT(out_row, out_row_bytes),                        \
                       WINDOWS_AT(a_pair, a_pair_bytes)                                                     \
                     : FP_REGISTERS, "cc", "memory")

#define WINDOWS_AT(name, field) [name] "i"(offsetof(windows_walk, field))
/* clang-format on */

/* Adds the products of all pairs of rows with one window. */
static inline void add_window_pairs(const poet_dot *dot, const float *a, const float *const *b, float *out)
{
    const int32_t bytes = (int32_t)sizeof(float);
    const int32_t left = dot->b_tap == 1 ? dot->taps % 3 : dot->taps % 4;
    const int32_t gap_bytes = (dot->b_line - (dot->taps - left) * dot->b_tap) * bytes;
    const windows_walk walk = {b, dot->lines, dot->out_row * bytes, (2 * dot->a_row - dot->lines * dot->taps) * bytes};
    const float *a0 = a, *a1 = a + dot->a_row, *b0, *b1, *b2;
    int32_t pairs = dot->rows / 2, n, t;
    if (dot->b_tap == 1) {
        WINDOWS_SUMS(WINDOWS_LOAD("s18", "s21", "s24", "0") WINDOWS_LOAD("s19", "s22", "s25", "4"), "3",
                     WINDOWS_FIRST("0", "8") WINDOWS_SECOND("4", "12") WINDOWS_THIRD("8", "16"), "#12", "#12",
                     WINDOWS_FIRST("0", "8") "cmp %[n], #2\n blt 5f\n" WINDOWS_SECOND("4", "12"));
    } else {
        WINDOWS_SUMS(WINDOWS_LOAD("s18", "s21", "s24", "0"), "4", WINDOWS_FOUR_APART, "#16", "#32", WINDOWS_LEFT_APART);
    }
}

/* Whether the columns are the places of windows, each in three lines. */
static inline int are_windows(const poet_dot *dot, const float *const *b)
{
    if (dot->columns % (WINDOW * WINDOW) != 0) {
        return 0;
    }
    for (int32_t j = 0; j < dot->columns; j += WINDOW) {
        if (b[j + 1] != b[j] + 1 || b[j + 2] != b[j] + 2) {
            return 0;
        }
    }
    return dot->b_tap == 1 || dot->b_tap == 2;
}

/* Adds the products of one row with them. */
static inline void add_window(const poet_dot *dot, const float *a, const float *const *b, float *out)
{
    const float *b0 = b[0], *b1 = b[WINDOW], *b2 = b[2 * WINDOW];
    int32_t lines = dot->lines, n;
    if (dot->b_tap == 1) {
        NINE_SUMS(NINE_LINE);
    } else {
        NINE_SUMS(NINE_LINE_APART);
    }
}

/* Adds the products with all columns if they are whole windows, and says whether they were. */
static int add_dot_windows(const poet_dot *dot, const float *a, const float *const *b, float *out)
{
    if (!are_windows(dot, b)) {
        return 0;
    }
    const int32_t last = dot->rows - 1;
    for (int32_t column = 0; column < dot->columns; column += WINDOW * WINDOW) {
        if (dot->rows >= 2) {
            add_window_pairs(dot, a, b + column, out + column);
        }
        if (dot->rows % 2 != 0) {
            add_window(dot, a + last * dot->a_row, b + column, out + last * dot->out_row + column);
        }
    }
    return 1;
}

#endif
