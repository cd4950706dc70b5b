/* SPDX-License-Identifier: Apache-2.0 */
/* Micro-kernels for the Cortex-M4F, in assembly because the compiler spills: the 16 sums of a tile in s16-s31, four
 * elements of A in s0-s3, of B in s4-s7 and s12-s15, products in s8-s11. A product and its sum stand four instructions
 * apart, because a result that the next instruction uses costs a cycle. Loads stand together, because neighbouring ones
 * overlap. The products are rounded before they are added, as in C without contraction. */
#ifndef POET_KERNELS_MICRO_KERNEL_M4F_INL_H
#define POET_KERNELS_MICRO_KERNEL_M4F_INL_H

#include "micro_kernel.h"
#include "micro_kernel_choice_m4f_inl.h"
#include "registers_m4f.h"
#include "tile_m4f.h"

/* Assembler, laid out by hand. */
/* clang-format off */
/* The first two columns alone. */
#define TAP_PAIR                                                                                        \
    "vmul.f32 s8, s0, s4\n vmul.f32 s9, s0, s5\n vmul.f32 s10, s1, s4\n vmul.f32 s11, s1, s5\n"         \
    "vmul.f32 s12, s2, s4\n vmul.f32 s13, s2, s5\n vmul.f32 s14, s3, s4\n vmul.f32 s15, s3, s5\n"       \
    "vadd.f32 s16, s16, s8\n vadd.f32 s17, s17, s9\n vadd.f32 s20, s20, s10\n vadd.f32 s21, s21, s11\n" \
    "vadd.f32 s24, s24, s12\n vadd.f32 s25, s25, s13\n vadd.f32 s28, s28, s14\n vadd.f32 s29, s29, s15\n"

#define FOUR(four, two) four
#define TWO(four, two) two

#define LOAD_A(at)                                            \
    "vldr s0, [%[a0], #" at "]\n vldr s1, [%[a1], #" at "]\n" \
    "vldr s2, [%[a2], #" at "]\n vldr s3, [%[a3], #" at "]\n"

#define LOAD_B(s, at) "vldr " s ", [%[b], #" at "]\n"

#define LOAD_B4(s0, at0, s1, at1, s2, at2, s3, at3) LOAD_B(s0, at0) LOAD_B(s1, at1) LOAD_B(s2, at2) LOAD_B(s3, at3)

#define ADVANCE_A(by)                                       \
    "add %[a0], %[a0], " by "\n add %[a1], %[a1], " by "\n" \
    "add %[a2], %[a2], " by "\n add %[a3], %[a3], " by "\n"

#define FROM_ROWS                                             \
    "ldr %[a0], [%[w], %[a]]\n ldr %[a1], [%[w], %[a] + 4]\n" \
    "ldr %[a2], [%[w], %[a] + 8]\n ldr %[a3], [%[w], %[a] + 12]\n"
#define FROM_ONE_ROW "ldr %[a0], [%[w], %[a]]\n"

#define START_SUMS                                                       \
    "vldr s16, [%[w], %[start]]\n vldr s20, [%[w], %[start] + 4]\n"      \
    "vldr s24, [%[w], %[start] + 8]\n vldr s28, [%[w], %[start] + 12]\n" \
    "vmov.f32 s17, s16\n vmov.f32 s18, s16\n vmov.f32 s19, s16\n"        \
    "vmov.f32 s21, s20\n vmov.f32 s22, s20\n vmov.f32 s23, s20\n"        \
    "vmov.f32 s25, s24\n vmov.f32 s26, s24\n vmov.f32 s27, s24\n"        \
    "vmov.f32 s29, s28\n vmov.f32 s30, s28\n vmov.f32 s31, s28\n"

/* From the results instead: `a1`, `a2` and `row` are registers to spare. */
#define START_FROM_RESULTS(row, a1, a2)                                                                   \
    "add " a1 ", %[out], " row "\n add " a2 ", " a1 ", " row "\n vldm %[out], {s16-s19}\n"                \
    "vldm " a1 ", {s20-s23}\n vldm " a2 ", {s24-s27}\n add " a2 ", " a2 ", " row "\n vldm " a2 ", {s28-s31}\n"
#define START_RESULTS START_FROM_RESULTS("%[out_row]", "%[a1]", "%[a2]")

#define START(POINTERS, COUNTS) POINTERS COUNTS START_SUMS

/* Rows of the tile below `out`; moves `b` on to the next tile. */
#define OUT_ROWS(out_row, b_tile)                                                                      \
    "add %[a3], %[out], " out_row "\n add %[a2], %[a3], " out_row "\n add %[a1], %[a2], " out_row "\n" \
    "add %[b], %[b], " b_tile "\n"

/* These store the tile and move `out` on as well; they leave with the zero flag set after the last. */
#define STORE_BY(out_row, b_tile, COLUMNS)                                                          \
    OUT_ROWS(out_row, b_tile)                                                                       \
    "vstm %[a3], {s20-s" COLUMNS("23", "21") "}\n vstm %[a2], {s24-s" COLUMNS("27", "25") "}\n"     \
    "vstm %[a1], {s28-s" COLUMNS("31", "29") "}\n vstmia %[out]!, {s16-s" COLUMNS("19", "17") "}\n" \
    "subs %[tiles], %[tiles], #1\n"
#define STORE_COLUMNS(COLUMNS) STORE_BY("%[out_row]", "%[b_tile]", COLUMNS)
#define STORE STORE_COLUMNS(FOUR)

#define STORE_THREE_ROWS                                                          \
    OUT_ROWS("%[out_row]", "%[b_tile]")                                           \
    "vstm %[a3], {s20-s23}\n vstm %[a2], {s24-s27}\n vstmia %[out]!, {s16-s19}\n" \
    "subs %[tiles], %[tiles], #1\n"

#define STORE_FIVE_ROWS                                                                                   \
    OUT_ROWS("%[out_row]", "%[b_tile]")                                                                   \
    "vstmia %[out]!, {s12-s15}\n vstm %[a3], {s16-s19}\n vstm %[a2], {s20-s23}\n vstm %[a1], {s24-s27}\n" \
    "add %[a1], %[a1], %[out_row]\n vstm %[a1], {s28-s31}\n subs %[tiles], %[tiles], #1\n"

#define SPREAD_ROW(row, c0, c1, c2, c3)                           \
    "vstr " c0 ", [%[" row "]]\n vstr " c1 ", [%[" row "], #8]\n" \
    "vstr " c2 ", [%[" row "], #16]\n vstr " c3 ", [%[" row "], #24]\n"

#define STORE_SPREAD                                                                           \
    OUT_ROWS("%[out_row]", "%[b_tile]")                                                        \
    SPREAD_ROW("a3", "s20", "s21", "s22", "s23") SPREAD_ROW("a2", "s24", "s25", "s26", "s27")  \
    SPREAD_ROW("a1", "s28", "s29", "s30", "s31") SPREAD_ROW("out", "s16", "s17", "s18", "s19") \
    "add %[out], %[out], #32\n subs %[tiles], %[tiles], #1\n"

#define AT(field) [field] "i"(offsetof(poet_cursor, field))
#define STORE_AT [out_row] "r"(cursor->out_row * 4), [b_tile] "r"(cursor->b_tile_bytes)

#define NEXT_K_ROW "add %[b], %[b], %[b_k_row]\n"

/* Of the first two columns. */
#define FIRST_TWO                                                                                 \
    "vmul.f32 s16, s0, s4\n vmul.f32 s17, s0, s5\n vmul.f32 s20, s1, s4\n vmul.f32 s21, s1, s5\n" \
    "vmul.f32 s24, s2, s4\n vmul.f32 s25, s2, s5\n vmul.f32 s28, s3, s4\n vmul.f32 s29, s3, s5\n"

/* What the sums of the first products are still to be added to. */
#define ADD_START                                                                                     \
    "vldr s0, [%[w], %[start]]\n vldr s1, [%[w], %[start] + 4]\n"                                     \
    "vldr s2, [%[w], %[start] + 8]\n vldr s3, [%[w], %[start] + 12]\n"                                \
    "vadd.f32 s16, s0, s16\n vadd.f32 s17, s0, s17\n vadd.f32 s18, s0, s18\n vadd.f32 s19, s0, s19\n" \
    "vadd.f32 s20, s1, s20\n vadd.f32 s21, s1, s21\n vadd.f32 s22, s1, s22\n vadd.f32 s23, s1, s23\n" \
    "vadd.f32 s24, s2, s24\n vadd.f32 s25, s2, s25\n vadd.f32 s26, s2, s26\n vadd.f32 s27, s2, s27\n" \
    "vadd.f32 s28, s3, s28\n vadd.f32 s29, s3, s29\n vadd.f32 s30, s3, s30\n vadd.f32 s31, s3, s31\n"

#define NO_START "" /* the kernel is not chosen where there is one */

#define ADD_RESULTS                                                                                          \
    "add %[t], %[out], %[out_row]\n vldm %[out], {s0-s3}\n vldm %[t], {s4-s7}\n"                             \
    "add %[t], %[t], %[out_row]\n vldm %[t], {s8-s11}\n add %[t], %[t], %[out_row]\n vldm %[t], {s12-s15}\n" \
    "vadd.f32 s16, s0, s16\n vadd.f32 s17, s1, s17\n vadd.f32 s18, s2, s18\n vadd.f32 s19, s3, s19\n"        \
    "vadd.f32 s20, s4, s20\n vadd.f32 s21, s5, s21\n vadd.f32 s22, s6, s22\n vadd.f32 s23, s7, s23\n"        \
    "vadd.f32 s24, s8, s24\n vadd.f32 s25, s9, s25\n vadd.f32 s26, s10, s26\n vadd.f32 s27, s11, s27\n"      \
    "vadd.f32 s28, s12, s28\n vadd.f32 s29, s13, s29\n vadd.f32 s30, s14, s30\n vadd.f32 s31, s15, s31\n"

/* The loop over K, for one tap in each k_row of a single channel. FIRST multiplies the first k_row, outside the loop.
 * The loop takes eight k_rows at a time and is entered so that none is left over at its end: %[entry] of its steps are
 * passed over, all of them if there was but one k_row. ENTER_WITH_START instead goes round by ADD. BACK puts A where the
 * step that is entered reads it. */
#define K_LOOP(ADD, STORE_TILE, POINTERS, FIRST, BACK, STEPS)                                                   \
    __asm__ volatile("7:\n" POINTERS "ldr %[t], [%[w], %[entry]]\n ldr %[n], [%[w], %[passes]]\n" FIRST BACK  \
                     "1: tbh [pc, %[t], lsl #1]\n"                                                              \
                     "10: .2byte (20f - 10b) / 2, (21f - 10b) / 2, (22f - 10b) / 2, (23f - 10b) / 2\n"          \
                     ".2byte (24f - 10b) / 2, (25f - 10b) / 2, (26f - 10b) / 2, (27f - 10b) / 2\n"              \
                     ".2byte (5f - 10b) / 2, (6f - 10b) / 2\n"                                                  \
                     "2:\n" STEPS "subs %[n], %[n], #1\n bne 2b\n"                                              \
                     "5:\n" STORE_TILE "bne 7b\n b 9f\n"                                                        \
                     "6:\n" ADD "ldr %[t], [%[w], %[resume]]\n b 1b\n"                                          \
                     "9:\n"                                                                                     \
                     : [a0] "=&r"(a0), [a1] "=&r"(a1), [a2] "=&r"(a2), [a3] "=&r"(a3), [b] "+&r"(b),            \
                       [n] "=&r"(n), [t] "=&r"(t), [out] "+&r"(out), [tiles] "+&r"(tiles)                       \
                     : [w] "r"(cursor), [a_step] "r"(cursor->a_step_bytes), [b_k_row] "r"(cursor->b_k_row * 4), \
                       STORE_AT, AT(start), AT(a), AT(passes), AT(entry), AT(resume)                            \
                     : FP_REGISTERS, "cc", "memory")

/* Three k_rows of a single channel at a time; `K_ROW` is given the places of its taps in A. BEGIN begins the sums. */
#define COUNT_TRIPLES "ldr %[n], [%[w], %[k_rows]]\n"
#define FROM_START START(FROM_ROWS, COUNT_TRIPLES)
#define FROM_RESULTS START_RESULTS FROM_ROWS COUNT_TRIPLES
#define TRIPLES(BEGIN, K_ROW)                                                                        \
    __asm__ volatile("7:\n" BEGIN                                                                    \
                     "2:\n" K_ROW("0", "4", "8") NEXT_K_ROW K_ROW("12", "16", "20") NEXT_K_ROW       \
                     K_ROW("24", "28", "32") NEXT_K_ROW ADVANCE_A("#36")                             \
                     "subs %[n], %[n], #3\n bne 2b\n" STORE "bne 7b\n"                               \
                     : [a0] "=&r"(a0), [a1] "=&r"(a1), [a2] "=&r"(a2), [a3] "=&r"(a3), [b] "+&r"(b), \
                       [n] "=&r"(n), [out] "+&r"(out), [tiles] "+&r"(tiles)                          \
                     : [w] "r"(cursor), [b_k_row] "r"(cursor->b_k_row * 4), STORE_AT,                \
                       AT(start), AT(a), AT(k_rows)                                                  \
                     : FP_REGISTERS, "cc", "memory")

/* Columns slide over s4-s7, s12, s13. */
#define TRIPLE(at0, at1, at2)                                                                    \
    LOAD_A(at0) LOAD_B4("s4", "0", "s5", "4", "s6", "8", "s7", "12") TAP("s4", "s5", "s6", "s7") \
    LOAD_A(at1) LOAD_B("s12", "16") TAP("s5", "s6", "s7", "s12")                                 \
    LOAD_A(at2) LOAD_B("s13", "20") TAP("s6", "s7", "s12", "s13")

#define TRIPLE_STRIDE_2(at0, at1, at2)                                                            \
    LOAD_A(at0) LOAD_B4("s4", "0", "s5", "8", "s6", "16", "s7", "24") TAP("s4", "s5", "s6", "s7") \
    LOAD_A(at1) LOAD_B4("s12", "4", "s13", "12", "s14", "20", "s15", "28")                        \
    TAP("s12", "s13", "s14", "s15")                                                               \
    LOAD_A(at2) LOAD_B("s4", "32") TAP("s5", "s6", "s7", "s4")

#define LOAD_FOUR LOAD_B4("s4", "0", "s5", "4", "s6", "8", "s7", "12")
#define LOAD_FOUR_STRIDE_2 LOAD_B4("s4", "0", "s5", "8", "s6", "16", "s7", "24")
#define LOAD_TWO LOAD_B("s4", "0") LOAD_B("s5", "4")
#define TAP_FOUR TAP("s4", "s5", "s6", "s7")

/* A contiguous. */
#define SINGLE(at, LOAD, TAPS) LOAD_A(at) LOAD TAPS NEXT_K_ROW
#define SINGLES(ADD, STORE_TILE, LOAD, FIRST, TAPS)                                                          \
    K_LOOP(ADD, STORE_TILE, FROM_ROWS, SINGLE("0", LOAD, FIRST), ADVANCE_A("%[a_step]"),                     \
           ADVANCE_A("#32") "20:\n" SINGLE("0", LOAD, TAPS) "21:\n" SINGLE("4", LOAD, TAPS)                  \
           "22:\n" SINGLE("8", LOAD, TAPS) "23:\n" SINGLE("12", LOAD, TAPS) "24:\n" SINGLE("16", LOAD, TAPS) \
           "25:\n" SINGLE("20", LOAD, TAPS) "26:\n" SINGLE("24", LOAD, TAPS) "27:\n" SINGLE("28", LOAD, TAPS))

/* With any step from k_row to k_row. */
#define BY_EIGHT(ADD, STORE_TILE, POINTERS, FIRST, STEP)       \
    K_LOOP(ADD, STORE_TILE, POINTERS, FIRST, ,                 \
           "20:\n" STEP "21:\n" STEP "22:\n" STEP "23:\n" STEP \
           "24:\n" STEP "25:\n" STEP "26:\n" STEP "27:\n" STEP)

#define TRANSPOSED(LOAD, TAPS)                                                                 \
    "vldr s0, [%[a0]]\n vldr s1, [%[a0], #4]\n vldr s2, [%[a0], #8]\n vldr s3, [%[a0], #12]\n" \
    LOAD TAPS "add %[a0], %[a0], %[a_step]\n" NEXT_K_ROW
#define TRANSPOSED_TILES(ADD, STORE_TILE, LOAD, FIRST, TAPS) \
    BY_EIGHT(ADD, STORE_TILE, FROM_ONE_ROW, TRANSPOSED(LOAD, FIRST), TRANSPOSED(LOAD, TAPS))

/* Five rows: A in s0-s4, B in s5-s8, products in s9-s11, sums in s12-s31. */
#define ROW_OF_FIVE(a, c0, c1, c2, c3)                                                      \
    "vmul.f32 s9, " a ", s5\n vmul.f32 s10, " a ", s6\n vmul.f32 s11, " a ", s7\n"          \
    "vadd.f32 " c0 ", " c0 ", s9\n vmul.f32 s9, " a ", s8\n vadd.f32 " c1 ", " c1 ", s10\n" \
    "vadd.f32 " c2 ", " c2 ", s11\n vadd.f32 " c3 ", " c3 ", s9\n"
#define FIRST_ROW_OF_FIVE(a, c0, c1, c2, c3)                    \
    "vmul.f32 " c0 ", " a ", s5\n vmul.f32 " c1 ", " a ", s6\n" \
    "vmul.f32 " c2 ", " a ", s7\n vmul.f32 " c3 ", " a ", s8\n"
#define ROWS_OF_FIVE(ROW)                                                       \
    ROW("s0", "s12", "s13", "s14", "s15") ROW("s1", "s16", "s17", "s18", "s19") \
    ROW("s2", "s20", "s21", "s22", "s23") ROW("s3", "s24", "s25", "s26", "s27") \
    ROW("s4", "s28", "s29", "s30", "s31")
#define TRANSPOSED_FIVE(ROW)                                                                   \
    "vldr s0, [%[a0]]\n vldr s1, [%[a0], #4]\n vldr s2, [%[a0], #8]\n vldr s3, [%[a0], #12]\n" \
    "vldr s4, [%[a0], #16]\n" LOAD_B4("s5", "0", "s6", "4", "s7", "8", "s8", "12")             \
    ROWS_OF_FIVE(ROW) "add %[a0], %[a0], %[a_step]\n" NEXT_K_ROW

#define STRIDED(STORE_TILE, LOAD, FIRST, TAPS)                                                  \
    BY_EIGHT(NO_START, STORE_TILE, FROM_ROWS, SINGLE("0", LOAD, FIRST) ADVANCE_A("%[a_step]"), \
             SINGLE("0", LOAD, TAPS) ADVANCE_A("%[a_step]"))

/* Input gradients: rows of A lie one kernel apart, so that one register reaches them all. */
#define LOAD_THREE_KERNELS(a0, a1, a2, at)                                 \
    "vldr " a0 ", [%[a0], #" at "]\n vldr " a1 ", [%[a0], #" at " + 36]\n" \
    "vldr " a2 ", [%[a0], #" at " + 72]\n"
#define LOAD_KERNELS(at) LOAD_THREE_KERNELS("s0", "s1", "s2", at) "vldr s3, [%[a0], #" at " + 108]\n"

#define REVERSED_ONE(at) LOAD_KERNELS(at) LOAD_FOUR TAP_FOUR
#define REVERSED_TWO(at, at1) REVERSED_ONE(at) LOAD_KERNELS(at1) LOAD_B("s12", "-4") TAP("s12", "s4", "s5", "s6")
#define REVERSED_THREE(at, at1, at2) \
    REVERSED_TWO(at, at1) LOAD_KERNELS(at2) LOAD_B("s13", "-8") TAP("s13", "s12", "s4", "s5")

/* Three rows leave registers to load a k_row at once. */
#define TAP_THREE_ROWS(a0, a1, a2, b0, b1, b2, b3)      \
    ROW(a0, b0, b1, b2, b3, "s16", "s17", "s18", "s19") \
    ROW(a1, b0, b1, b2, b3, "s20", "s21", "s22", "s23") \
    ROW(a2, b0, b1, b2, b3, "s24", "s25", "s26", "s27")
#define REVERSED_THREE_ROWS(at, at1, at2)                                                          \
    LOAD_THREE_KERNELS("s0", "s1", "s2", at) LOAD_THREE_KERNELS("s3", "s14", "s15", at1)           \
    LOAD_THREE_KERNELS("s28", "s29", "s30", at2) LOAD_FOUR LOAD_B("s12", "-4") LOAD_B("s13", "-8") \
    TAP_THREE_ROWS("s0", "s1", "s2", "s4", "s5", "s6", "s7")                                       \
    TAP_THREE_ROWS("s3", "s14", "s15", "s12", "s4", "s5", "s6")                                    \
    TAP_THREE_ROWS("s28", "s29", "s30", "s13", "s12", "s4", "s5")

#define REVERSED_3X3(THREE) THREE("0", "4", "8") NEXT_K_ROW THREE("12", "16", "20") NEXT_K_ROW THREE("24", "28", "32")

/* The distances are those from channel to channel; b moves on `k_rows` - 1 times by itself. */
#define GRADIENT(STARTED, STORE_TILE, K_ROWS)                                                                       \
    __asm__ volatile("7:\n" FROM_ONE_ROW "ldr %[n], [%[w], %[channels]]\n" STARTED "1:\n" K_ROWS                    \
                     "add %[a0], %[a0], %[a_channel]\n add %[b], %[b], %[b_channel]\n"                              \
                     "subs %[n], %[n], #1\n bne 1b\n" STORE_TILE "bne 7b\n"                                         \
                     : [a0] "=&r"(a0), [a1] "=&r"(a1), [a2] "=&r"(a2), [a3] "=&r"(a3), [b] "+&r"(b),                \
                       [n] "=&r"(n), [out] "+&r"(out), [tiles] "+&r"(tiles)                                         \
                     : [w] "r"(cursor), [b_k_row] "r"(cursor->b_k_row * 4), [a_channel] "r"(a_channel * 4),         \
                       [b_channel] "r"(b_channel * 4), STORE_AT,                                                    \
                       [channels] "i"(one_k_row ? offsetof(poet_cursor, k_rows) : offsetof(poet_cursor, channels)), \
                       AT(start), AT(a)                                                                             \
                     : FP_REGISTERS, "cc", "memory")

/* What the assembly above is given. */
#define TILES_FROM(cursor, past, count)                               \
    const float *a0, *a1, *a2, *a3, *b = (cursor)->b + (past);        \
    float *out = (cursor)->out + (past);                              \
    int32_t tiles = (count), n, t;                                    \
    (void)t
#define TILES_SIDE_BY_SIDE(cursor) TILES_FROM(cursor, 0, (cursor)->tiles)
#define LAST_TWO_COLUMNS(cursor) TILES_FROM(cursor, POET_TILE * (cursor)->tiles + (cursor)->left - 2, 1)
#define TILES_OF_GRADIENT_K_ROWS(cursor)                                                              \
    TILES_SIDE_BY_SIDE(cursor);                                                                       \
    enum { one_k_row = 0 };                                                                           \
    const int32_t a_channel = (cursor)->a_channel + (cursor)->k_rows * (cursor)->a_k_row;             \
    const int32_t b_channel = (cursor)->b_channel + (cursor)->b_k_row
#define TILES_OF_GRADIENT_ONE_K_ROW(cursor)                                                           \
    TILES_SIDE_BY_SIDE(cursor);                                                                       \
    enum { one_k_row = 1 };                                                                           \
    const int32_t a_channel = (cursor)->a_k_row, b_channel = (cursor)->b_k_row
/* clang-format on */

#endif
