/* SPDX-License-Identifier: Apache-2.0 */
/* One plane of a depthwise convolution for the Cortex-M4F. No tile of rows shares what is loaded here, since each row
 * has a channel of its own; but the nine weights stay in registers, and every element of a strip three results wide is
 * loaded once. Down the strip, a row of inputs ends the results above it, goes on with those beside it and begins those
 * below it: what each taps row adds to moves on to the next one's registers with its last addition. A column outside of
 * the plane is a zero that is read again in each row. */
#ifndef POET_KERNELS_DEPTHWISE_M4F_INL_H
#define POET_KERNELS_DEPTHWISE_M4F_INL_H

#include "registers_m4f.h"

/* Assembler, laid out by hand. */
/* clang-format off */
/* Weights in s0-s8, what sums begin with in s9, sums of the first row of taps in s10-s12, of the second in s13-s15, a
 * row of inputs from s16 on, products in s23-s28, a zero in s29. Three results of three taps: from f into b, and with
 * the last tap into c. */
#define TAPS_ROW(wa, wb, wc, f0, f1, f2, b0, b1, b2, c0, c1, c2, xa0, xa1, xa2, xb0, xb1, xb2, xc0, xc1, xc2)    \
    "vmul.f32 s23, " wa ", " xa0 "\n vmul.f32 s24, " wa ", " xa1 "\n vmul.f32 s25, " wa ", " xa2 "\n"            \
    "vmul.f32 s26, " wb ", " xb0 "\n vmul.f32 s27, " wb ", " xb1 "\n vmul.f32 s28, " wb ", " xb2 "\n"            \
    "vadd.f32 " b0 ", " f0 ", s23\n vadd.f32 " b1 ", " f1 ", s24\n vadd.f32 " b2 ", " f2 ", s25\n"               \
    "vmul.f32 s23, " wc ", " xc0 "\n vmul.f32 s24, " wc ", " xc1 "\n vmul.f32 s25, " wc ", " xc2 "\n"            \
    "vadd.f32 " b0 ", " b0 ", s26\n vadd.f32 " b1 ", " b1 ", s27\n vadd.f32 " b2 ", " b2 ", s28\n"               \
    "vadd.f32 " c0 ", " b0 ", s23\n vadd.f32 " c1 ", " b1 ", s24\n vadd.f32 " c2 ", " b2 ", s25\n"

#define FIRST_TAPS(...) TAPS_ROW("s0", "s1", "s2", "s9", "s9", "s9", "s10", "s11", "s12", "s10", "s11", "s12", __VA_ARGS__)
#define SECOND_TAPS(c0, c1, c2, ...) \
    TAPS_ROW("s3", "s4", "s5", "s10", "s11", "s12", "s10", "s11", "s12", c0, c1, c2, __VA_ARGS__)
#define THIRD_TAPS(c0, c1, c2, ...) TAPS_ROW("s6", "s7", "s8", c0, c1, c2, c0, c1, c2, c0, c1, c2, __VA_ARGS__)

/* Three results one after another, or two apart. */
#define CLOSE "s16", "s17", "s18", "s17", "s18", "s19", "s18", "s19", "s20"
#define APART "s16", "s18", "s20", "s17", "s19", "s21", "s18", "s20", "s22"

/* For the next channel, to whose kernel MOVE then moves on: sums that have met the row of zeros above the plane. What
 * is read once for a channel stays in memory, because registers are few. */
#define NO_NUMBER "mov %[n], #0\n vmov s29, %[n]\n vmov.f32 s16, s29\n"
#define BEGIN_SUMS(MOVE)                                                                                  \
    "vldm %[w], {s0-s8}\n vldr s9, [%[start]]\n ldr %[n], %[start_step]\n " MOVE " %[w], %[w], #36\n"     \
    "vmul.f32 s23, s0, s29\n vmul.f32 s24, s1, s29\n vmul.f32 s25, s2, s29\n"                           \
    "vadd.f32 s10, s9, s23\n add %[start], %[start], %[n]\n vadd.f32 s10, s10, s24\n ldr %[n], %[rows]\n" \
    "vadd.f32 s10, s10, s25\n vmov.f32 s11, s10\n vmov.f32 s12, s10\n"

/* The row of zeros below it. */
#define END_SUMS                                                                             \
    "vmul.f32 s23, s6, s29\n vmul.f32 s24, s7, s29\n vmul.f32 s25, s8, s29\n"                \
    "vadd.f32 s13, s13, s23\n vadd.f32 s14, s14, s23\n vadd.f32 s15, s15, s23\n"             \
    "vadd.f32 s13, s13, s24\n vadd.f32 s14, s14, s24\n vadd.f32 s15, s15, s24\n"             \
    "vadd.f32 s13, s13, s25\n vadd.f32 s14, s14, s25\n vadd.f32 s15, s15, s25\n"

#define NEXT_CHANNEL "subs %[channels], %[channels], #1\n bne 6b\n"

#define LOAD_FIVE(at1, at2, at3)                                                             \
    "vldr s16, [%[first]]\n vldr s17, [%[x], #" at1 "]\n vldr s18, [%[x], #" at2 "]\n"       \
    "vldr s19, [%[x], #" at3 "]\n vldr s20, [%[last]]\n"                                     \
    "add %[first], %[first], %[first_step]\n add %[x], %[x], %[row]\n add %[last], %[last], %[last_step]\n"

#define STORE_THREE "vstm %[y], {s13-s15}\n add %[y], %[y], %[row]\n"

#define STRIPS(MOVE, LOAD, c0, c1, c2)                                                                      \
    __asm__ volatile(NO_NUMBER "6:\n" BEGIN_SUMS(MOVE) LOAD "b 2f\n"                                        \
                     "1:\n" FIRST_TAPS(CLOSE) LOAD THIRD_TAPS(c0, c1, c2, CLOSE) STORE_THREE                \
                     "2:\n" SECOND_TAPS(c0, c1, c2, CLOSE) "subs %[n], %[n], #1\n bne 1b\n"                 \
                     END_SUMS STORE_THREE NEXT_CHANNEL                                                      \
                     : [first] "+&r"(first), [x] "+&r"(x), [last] "+&r"(last), [y] "+&r"(y), [w] "+&r"(w),  \
                       [start] "+&r"(start), [channels] "+&r"(channels), [n] "=&r"(n)                       \
                     : [first_step] "r"(first_step), [last_step] "r"(last_step), [row] "r"(row),            \
                       [rows] "m"(rows), [start_step] "m"(start_step)                                       \
                     : FP_REGISTERS, "cc", "memory")

#define LOAD_APART_FROM(first) "vldm %[x], {" first "-s22}\n add %[x], %[x], %[row]\n"

#define STRIPS_STRIDE_2(LOAD)                                                                                \
    __asm__ volatile(NO_NUMBER "6:\n" BEGIN_SUMS("add") "b 2f\n"                                            \
                     "1:\n" FIRST_TAPS(APART)                                                               \
                     "2:\n" LOAD SECOND_TAPS("s13", "s14", "s15", APART)                                    \
                     LOAD THIRD_TAPS("s13", "s14", "s15", APART)                                            \
                     "vstm %[y], {s13-s15}\n add %[y], %[y], %[y_row]\n"                                    \
                     "subs %[n], %[n], #1\n bne 1b\n" NEXT_CHANNEL                                          \
                     : [x] "+&r"(x), [y] "+&r"(y), [w] "+&r"(w), [start] "+&r"(start),                      \
                       [channels] "+&r"(channels), [n] "=&r"(n)                                             \
                     : [row] "r"(row), [y_row] "r"(win->ow * 4), [rows] "m"(rows),                          \
                       [start_step] "m"(start_step)                                                         \
                     : FP_REGISTERS, "cc", "memory")
/* clang-format on */

/* Where a strip begins: the last one may go back over columns of the one before. */
static inline int32_t strip_at(int32_t column, int32_t columns)
{
    return column + COLUMNS <= columns ? column : columns - COLUMNS;
}

/* Convolutions of stride 1; or with the kernel turned, and everything from the end to the begin, their input gradients.
 * After the strip of one channel begins that of the next. */
static inline void sum_strips(const poet_windows *win, int32_t channels, int32_t column, bool turned, const float *x,
                              const float *w, const float *bias, float *y)
{
    const int32_t bytes = (int32_t)sizeof(float);
    float zero = 0.0f; /* on the stack, as `nothing` is: the flash is slower */
    float nothing = SUM_OF_NOTHING;
    const int32_t row = (turned ? -win->w : win->w) * bytes;
    const int32_t at = (turned ? (channels * win->h - 1) * win->w : 0) + column;
    const float *before = column == 0 ? &zero : x + at - 1;
    const float *behind = column + COLUMNS == win->w ? &zero : x + at + COLUMNS;
    const float *first = turned ? behind : before;
    const float *last = turned ? before : behind;
    const int32_t first_step = first == &zero ? 0 : row;
    const int32_t last_step = last == &zero ? 0 : row;
    const float *start = bias != NULL ? bias : &nothing;
    const int32_t start_step = bias != NULL ? bytes : 0;
    const int32_t rows = win->h;
    int32_t n;
    x += at;
    y += at;
    if (turned) {
        w += (channels - 1) * KERNEL_WEIGHTS;
        STRIPS("sub", LOAD_FIVE("8", "4", "0"), "s15", "s14", "s13");
    } else {
        STRIPS("add", LOAD_FIVE("0", "4", "8"), "s13", "s14", "s15");
    }
}

static inline void sum_strips_stride_2(const poet_windows *win, int32_t channels, int32_t column, const float *x,
                                       const float *w, const float *bias, float *y)
{
    const int32_t bytes = (int32_t)sizeof(float);
    float nothing = SUM_OF_NOTHING;
    const int32_t row = win->w * bytes;
    const float *start = bias != NULL ? bias : &nothing;
    const int32_t start_step = bias != NULL ? bytes : 0;
    const int32_t rows = win->oh;
    int32_t n;
    y += column;
    if (column == 0) {
        STRIPS_STRIDE_2(LOAD_APART_FROM("s17"));
    } else {
        x += 2 * column - 1;
        STRIPS_STRIDE_2(LOAD_APART_FROM("s16"));
    }
}

static void convolve_planes(const poet_windows *win, int32_t channels, bool adds, const float *x, const float *w,
                            const float *bias, float *y)
{
    if (adds) {
        sum_windows(win, channels, adds, x, w, bias, y);
        return;
    }
    for (int32_t column = 0; column < win->ow; column += COLUMNS) {
        if (win->sh == 1) {
            sum_strips(win, channels, strip_at(column, win->ow), false, x, w, bias, y);
        } else {
            sum_strips_stride_2(win, channels, strip_at(column, win->ow), x, w, bias, y);
        }
    }
}

/* Assembler, laid out by hand. */
/* clang-format off */
/* Input gradients of stride 2: weights in s0-s8, four elements of gy in s9-s12, an odd row of gx in s13-s18, an even
 * one in s19-s24. From below, a row of gy ends the odd row of gx after it, makes the even one beside it and begins the
 * odd one before it. */
#define BEGIN_ROW(e0, o0, e1, o1, e2, o2, wa, wb, wc)                                                       \
    "vmul.f32 " o0 ", " wa ", s10\n vmul.f32 " o1 ", " wa ", s11\n vmul.f32 " o2 ", " wa ", s12\n"          \
    "vmul.f32 s25, " wc ", s9\n vmul.f32 s26, " wc ", s10\n vmul.f32 s27, " wc ", s11\n"                    \
    "vmul.f32 " e0 ", " wb ", s9\n vmul.f32 " e1 ", " wb ", s10\n vmul.f32 " e2 ", " wb ", s11\n"           \
    "vadd.f32 " o0 ", " o0 ", s25\n vadd.f32 " o1 ", " o1 ", s26\n vadd.f32 " o2 ", " o2 ", s27\n"

#define END_ODD_ROW                                                                                       \
    "vmul.f32 s25, s6, s10\n vmul.f32 s26, s6, s11\n vmul.f32 s27, s6, s12\n"                             \
    "vmul.f32 s28, s8, s9\n vmul.f32 s29, s8, s10\n vmul.f32 s30, s8, s11\n vmul.f32 s31, s7, s9\n"       \
    "vadd.f32 s14, s14, s25\n vadd.f32 s16, s16, s26\n vadd.f32 s18, s18, s27\n"                          \
    "vmul.f32 s25, s7, s10\n vmul.f32 s26, s7, s11\n"                                                     \
    "vadd.f32 s14, s14, s28\n vadd.f32 s16, s16, s29\n vadd.f32 s18, s18, s30\n"                          \
    "vadd.f32 s13, s13, s31\n vadd.f32 s15, s15, s25\n vadd.f32 s17, s17, s26\n"

#define STORE_ROW(from, to) "vstm %[gx], {" from "-" to "}\n sub %[gx], %[gx], %[row]\n"
/* clang-format on */

static inline void gradient_strips_stride_2(const poet_windows *win, int32_t channels, int32_t column, const float *gy,
                                            const float *w, float *gx)
{
    float zero = 0.0f;
    const bool is_last = column + COLUMNS == win->ow;
    const int32_t gy_row = win->ow * (int32_t)sizeof(float);
    const float *at = gy + (channels * win->oh - 1) * win->ow + column;
    const float *last = is_last ? &zero : at + COLUMNS;
    int32_t n;
    w += (channels - 1) * KERNEL_WEIGHTS;
    gx += (channels * win->h - 1) * win->w + 2 * column;
    __asm__ volatile(
        "6: vldm %[w], {s0-s8}\n sub %[w], %[w], #36\n mov %[n], #0\n vmov s9, %[n]\n"
        "mov %[n], %[rows]\n vmov.f32 s10, s9\n vmov.f32 s11, s9\n vmov.f32 s12, s9\n"
        "1:\n" BEGIN_ROW(
            "s13", "s14", "s15", "s16", "s17", "s18", "s0", "s1",
            "s2") "vldr s9, [%[gy]]\n vldr s10, [%[gy], #4]\n vldr s11, [%[gy], #8]\n vldr s12, [%[last]]\n"
                  "sub %[gy], %[gy], %[gy_row]\n sub %[last], %[last], %[last_step]\n" END_ODD_ROW STORE_ROW(
                      "s13", "s18") BEGIN_ROW("s19", "s20", "s21", "s22", "s23", "s24", "s3", "s4", "s5")
                      STORE_ROW("s19", "s24") "subs %[n], %[n], #1\n bne 1b\n" NEXT_CHANNEL
        : [gy] "+&r"(at), [last] "+&r"(last), [gx] "+&r"(gx), [w] "+&r"(w), [channels] "+&r"(channels), [n] "=&r"(n)
        : [rows] "r"(win->oh), [gy_row] "r"(gy_row), [last_step] "r"(is_last ? 0 : gy_row), [row] "r"(win->w * 4)
        : FP_REGISTERS, "cc", "memory");
}

static void gradient_of_planes(const poet_windows *win, int32_t channels, bool adds, const float *gy, const float *w,
                               float *gx)
{
    if (adds) {
        sum_gradients(win, channels, adds, gy, w, gx);
        return;
    }
    for (int32_t column = 0; column < win->ow; column += COLUMNS) {
        if (win->sh == 1) {
            sum_strips(win, channels, strip_at(column, win->ow), true, gy, w, NULL, gx);
        } else {
            gradient_strips_stride_2(win, channels, strip_at(column, win->ow), gy, w, gx);
        }
    }
}

/* Assembler, laid out by hand. */
/* clang-format off */
/* Weight gradients: nine sums in s0-s8, three gradients in s9-s11, three rows of inputs one after the other from s12 on,
 * where each begins with what is in s19-s21: the last column that was read of it, or the zero outside. */
#define MEET(g, x0, x1, x2, p0, p1, p2) \
    "vmul.f32 " p0 ", " g ", " x0 "\n vmul.f32 " p1 ", " g ", " x1 "\n vmul.f32 " p2 ", " g ", " x2 "\n"
#define ADD_MET(c0, c1, c2, p0, p1, p2) \
    "vadd.f32 " c0 ", " c0 ", " p0 "\n vadd.f32 " c1 ", " c1 ", " p1 "\n vadd.f32 " c2 ", " c2 ", " p2 "\n"

#define MEET_ONE(c0, c1, c2, x0, x1, x2) \
    MEET("s9", x0, x1, x2, "s22", "s23", "s24") ADD_MET(c0, c1, c2, "s22", "s23", "s24")
#define MEET_TWO(c0, c1, c2, x0, x1, x2, y0, y1, y2)                                         \
    MEET("s9", x0, x1, x2, "s22", "s23", "s24") MEET("s10", y0, y1, y2, "s25", "s26", "s27") \
    ADD_MET(c0, c1, c2, "s22", "s23", "s24") ADD_MET(c0, c1, c2, "s25", "s26", "s27")
#define MEET_THREE(c0, c1, c2, x0, x1, x2, y0, y1, y2, z0, z1, z2)                            \
    MEET("s9", x0, x1, x2, "s22", "s23", "s24") MEET("s10", y0, y1, y2, "s25", "s26", "s27")  \
    ADD_MET(c0, c1, c2, "s22", "s23", "s24") MEET("s11", z0, z1, z2, "s22", "s23", "s24")     \
    ADD_MET(c0, c1, c2, "s25", "s26", "s27") ADD_MET(c0, c1, c2, "s22", "s23", "s24")

/* Stride 1: in the midst of a row, and at its end, beyond which there is a zero, in s28. */
#define CLOSE_THREE(x, before, c0, c1, c2)                                                                      \
    "vldm %[" x "], {s13-s16}\n add %[" x "], %[" x "], #12\n"                                                  \
    MEET_THREE(c0, c1, c2, before, "s13", "s14", "s13", "s14", "s15", "s14", "s15", "s16") "vmov.f32 " before ", s15\n"
#define CLOSE_END_THREE(x, before, c0, c1, c2) \
    "vldmia %[" x "]!, {s13-s15}\n"            \
    MEET_THREE(c0, c1, c2, before, "s13", "s14", "s13", "s14", "s15", "s14", "s15", "s28")
#define CLOSE_END_TWO(x, before, c0, c1, c2) \
    "vldmia %[" x "]!, {s13-s14}\n" MEET_TWO(c0, c1, c2, before, "s13", "s14", "s13", "s14", "s28")
#define CLOSE_END_ONE(x, before, c0, c1, c2) \
    "vldmia %[" x "]!, {s13}\n" MEET_ONE(c0, c1, c2, before, "s13", "s28")

/* Stride 2. */
#define APART_THREE(x, before, c0, c1, c2)                                                                         \
    "vldmia %[" x "]!, {s13-s18}\n"                                                                                \
    MEET_THREE(c0, c1, c2, before, "s13", "s14", "s14", "s15", "s16", "s16", "s17", "s18") "vmov.f32 " before ", s18\n"
#define APART_END_TWO(x, before, c0, c1, c2) \
    "vldmia %[" x "]!, {s13-s16}\n" MEET_TWO(c0, c1, c2, before, "s13", "s14", "s14", "s15", "s16")
#define APART_END_ONE(x, before, c0, c1, c2) \
    "vldmia %[" x "]!, {s13-s14}\n" MEET_ONE(c0, c1, c2, before, "s13", "s14")

/* The first row of gradients meets no row of inputs above, the last one perhaps none below. */
#define MEET_ROWS(LOAD, MEET_ROW)                                                     \
    LOAD "cmp %[n_rows], %[rows]\n beq 21f\n" MEET_ROW("x0", "s19", "s0", "s1", "s2") \
    "21:\n" MEET_ROW("x1", "s20", "s3", "s4", "s5")                                   \
    "cmp %[n_rows], %[row_without]\n beq 22f\n" MEET_ROW("x2", "s21", "s6", "s7", "s8") "22:\n"

#define ONE_GRADIENT "vldmia %[gy]!, {s9}\n"
#define TWO_GRADIENTS "vldmia %[gy]!, {s9-s10}\n"
#define THREE_GRADIENTS "vldmia %[gy]!, {s9-s11}\n"

#define CLOSE_ROW                                                                                                  \
    "1: cmp %[n], #3\n ble 2f\n" MEET_ROWS(THREE_GRADIENTS, CLOSE_THREE) "sub %[n], %[n], #3\n b 1b\n"             \
    "2: blt 3f\n" MEET_ROWS(THREE_GRADIENTS, CLOSE_END_THREE) "b 9f\n"                                             \
    "3: cmp %[n], #2\n blt 4f\n" MEET_ROWS(TWO_GRADIENTS, CLOSE_END_TWO) "b 9f\n"                                  \
    "4:\n" MEET_ROWS(ONE_GRADIENT, CLOSE_END_ONE) "9:\n"

#define APART_ROW                                                                                                  \
    "1: subs %[n], %[n], #3\n blt 2f\n" MEET_ROWS(THREE_GRADIENTS, APART_THREE) "b 1b\n"                           \
    "2: adds %[n], %[n], #2\n blt 9f\n bgt 3f\n" MEET_ROWS(ONE_GRADIENT, APART_END_ONE) "b 9f\n"                   \
    "3:\n" MEET_ROWS(TWO_GRADIENTS, APART_END_TWO)                                                                 \
    "9: add %[x0], %[x0], %[x_row]\n add %[x1], %[x1], %[x_row]\n add %[x2], %[x2], %[x_row]\n"

/* x0 and perhaps x2 have been read one row less than a plane has. */
#define MEET_ALL(ROW, without, NEXT_X2)                                                                         \
    __asm__ volatile("mov %[n], #0\n vmov s28, %[n]\n"                                                          \
                     "6: vldm %[gw], {s0-s8}\n mov %[n_rows], %[rows]\n"                                        \
                     "7: mov %[n], %[columns]\n vmov.f32 s19, s28\n vmov.f32 s20, s28\n vmov.f32 s21, s28\n"    \
                     ROW "subs %[n_rows], %[n_rows], #1\n bne 7b\n"                                             \
                     "vstmia %[gw]!, {s0-s8}\n add %[x0], %[x0], %[x_row]\n" NEXT_X2 NEXT_CHANNEL               \
                     : [gy] "+&r"(gy), [x0] "+&r"(x0), [x1] "+&r"(x1), [x2] "+&r"(x2), [gw] "+&r"(gw),          \
                       [channels] "+&r"(channels), [n_rows] "=&r"(n_rows), [n] "=&r"(n)                         \
                     : [columns] "r"(win->ow), [rows] "r"(win->oh), [x_row] "r"(win->w * 4),                    \
                       [row_without] "i"(without)                                                               \
                     : FP_REGISTERS, "cc", "memory")
/* clang-format on */

static void add_weight_gradients(const poet_windows *win, int32_t channels, const float *gy, const float *x, float *gw)
{
    const float *x0 = x, *x1 = x, *x2 = x + win->w; /* x0 waits for the second row of gradients */
    int32_t n_rows, n;
    if (win->sh == 1) {
        MEET_ALL(CLOSE_ROW, 1, "add %[x2], %[x2], %[x_row]\n");
    } else {
        MEET_ALL(APART_ROW, 0, );
    }
}

#endif
