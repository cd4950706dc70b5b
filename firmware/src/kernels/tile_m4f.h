/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen products of four elements of A, in s0-s3, with four of B, for the Cortex-M4F: sums in s16-s31, products in
 * s8-s11. A product and its sum stand four instructions apart, because a result that the next instruction uses costs a
 * cycle. */
#ifndef POET_KERNELS_TILE_M4F_H
#define POET_KERNELS_TILE_M4F_H

/* Assembler, laid out by hand. */
/* clang-format off */
#define ROW(a, b0, b1, b2, b3, c0, c1, c2, c3)                    \
    "vmul.f32 s8, " a ", " b0 "\n vmul.f32 s9, " a ", " b1 "\n"   \
    "vmul.f32 s10, " a ", " b2 "\n vmul.f32 s11, " a ", " b3 "\n" \
    "vadd.f32 " c0 ", " c0 ", s8\n vadd.f32 " c1 ", " c1 ", s9\n" \
    "vadd.f32 " c2 ", " c2 ", s10\n vadd.f32 " c3 ", " c3 ", s11\n"

#define TAP(b0, b1, b2, b3)                               \
    ROW("s0", b0, b1, b2, b3, "s16", "s17", "s18", "s19") \
    ROW("s1", b0, b1, b2, b3, "s20", "s21", "s22", "s23") \
    ROW("s2", b0, b1, b2, b3, "s24", "s25", "s26", "s27") \
    ROW("s3", b0, b1, b2, b3, "s28", "s29", "s30", "s31")

/* Products that begin the sums. */
#define FIRST_FOUR                                                                                \
    "vmul.f32 s16, s0, s4\n vmul.f32 s17, s0, s5\n vmul.f32 s18, s0, s6\n vmul.f32 s19, s0, s7\n" \
    "vmul.f32 s20, s1, s4\n vmul.f32 s21, s1, s5\n vmul.f32 s22, s1, s6\n vmul.f32 s23, s1, s7\n" \
    "vmul.f32 s24, s2, s4\n vmul.f32 s25, s2, s5\n vmul.f32 s26, s2, s6\n vmul.f32 s27, s2, s7\n" \
    "vmul.f32 s28, s3, s4\n vmul.f32 s29, s3, s5\n vmul.f32 s30, s3, s6\n vmul.f32 s31, s3, s7\n"
/* clang-format on */

#endif
