/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of A times the transpose of B for the Cortex-M4F: 4 x 4, or 4 x 2, in the registers of micro_kernel_m4f_inl.h.
 */
#ifndef POET_KERNELS_NT_TILES_M4F_INL_H
#define POET_KERNELS_NT_TILES_M4F_INL_H

#include "micro_kernel_m4f_inl.h"

/* Assembler, laid out by hand. */
/* clang-format off */
#define NT_STEP(a_at, b_at)                                       \
    LOAD_A(a_at)                                                  \
    "vldr s4, [%[b0], #" b_at "]\n vldr s5, [%[b1], #" b_at "]\n" \
    "vldr s6, [%[b2], #" b_at "]\n vldr s7, [%[b3], #" b_at "]\n" TAP("s4", "s5", "s6", "s7")

#define NT_PAIR_STEP(a_at, b_at) \
    LOAD_A(a_at) "vldr s4, [%[b0], #" b_at "]\n vldr s5, [%[b1], #" b_at "]\n" TAP_PAIR

#define ADVANCE_B(by)                                       \
    "add %[b0], %[b0], " by "\n add %[b1], %[b1], " by "\n" \
    "add %[b2], %[b2], " by "\n add %[b3], %[b3], " by "\n"

#define ADVANCE_B_PAIR(by) "add %[b0], %[b0], " by "\n add %[b1], %[b1], " by "\n"

/* The sums of the tile at `out`: MOVE is vldm or vstm. Leaves %[t] as the distance of its rows. */
#define NT_SUMS(MOVE, COLUMNS)                                                                             \
    "ldr %[t], [%[w], %[out_row]]\n"                                                                       \
    "add %[b0], %[out], %[t], lsl #2\n add %[b1], %[out], %[t], lsl #3\n add %[b2], %[b0], %[t], lsl #3\n" \
    MOVE " %[out], {s16-s" COLUMNS("19", "17") "}\n" MOVE " %[b0], {s20-s" COLUMNS("23", "21") "}\n"       \
    MOVE " %[b1], {s24-s" COLUMNS("27", "25") "}\n" MOVE " %[b2], {s28-s" COLUMNS("31", "29") "}\n"

#define LAST_B(COLUMNS) COLUMNS("ldr %[b2], [%[b3], #8]\n ldr %[b3], [%[b3], #12]\n", )

/* Eight taps at a time, then one by one. `b1_at` to `b8_at`: places of the second to the ninth tap of B. */
#define NT_TILES(COLUMNS, STEP, ADVANCE, b1_at, b2_at, b3_at, b4_at, b5_at, b6_at, b7_at, b8_at)             \
    __asm__ volatile(                                                                                        \
        "ldr %[a0], [%[w], %[a]]\n ldr %[a1], [%[w], %[a] + 4]\n"                                            \
        "ldr %[a2], [%[w], %[a] + 8]\n ldr %[a3], [%[w], %[a] + 12]\n"                                       \
        "7:\n" NT_SUMS("vldm", COLUMNS)                                                                      \
        "ldr %[b3], [%[w], %[b]]\n ldr %[b0], [%[b3]]\n ldr %[b1], [%[b3], #4]\n" LAST_B(COLUMNS)            \
        "ldr %[t], [%[w], %[k_rows]]\n"                                                                      \
        "1: ldr %[n], [%[w], %[taps]]\n subs %[n], %[n], #8\n blt 3f\n"                                      \
        "2:\n" STEP("0", "0") STEP("4", b1_at) STEP("8", b2_at) STEP("12", b3_at)                            \
        STEP("16", b4_at) STEP("20", b5_at) STEP("24", b6_at) STEP("28", b7_at)                              \
        ADVANCE_A("#32") ADVANCE("#" b8_at)                                                                  \
        "subs %[n], %[n], #8\n bge 2b\n"                                                                     \
        "3: adds %[n], %[n], #8\n beq 5f\n"                                                                  \
        "4:\n" STEP("0", "0") ADVANCE_A("#4") ADVANCE("#" b1_at) "subs %[n], %[n], #1\n bne 4b\n"            \
        "5: ldr %[n], [%[w], %[b_gap_bytes]]\n" ADVANCE("%[n]")                                              \
        "subs %[t], %[t], #1\n bne 1b\n"                                                                     \
        NT_SUMS("vstm", COLUMNS)                                                                             \
        "add %[out], %[out], %[t], lsl #4\n ldr %[n], [%[w], %[a_gap_bytes]]\n" ADVANCE_A("%[n]")            \
        "subs %[tiles], %[tiles], #1\n bne 7b\n"                                                             \
        : [a0] "=&r"(a0), [a1] "=&r"(a1), [a2] "=&r"(a2), [a3] "=&r"(a3), [b0] "=&r"(b0), [b1] "=&r"(b1),    \
          [b2] "=&r"(b2), [b3] "=&r"(b3), [n] "=&r"(n), [t] "=&r"(t), [out] "+&r"(out), [tiles] "+&r"(tiles) \
        : [w] "r"(cursor), NT_AT(a), NT_AT(b), NT_AT(out_row), NT_AT(k_rows), NT_AT(taps),                   \
          NT_AT(b_gap_bytes), NT_AT(a_gap_bytes)                                                             \
        : FP_REGISTERS, "cc", "memory")

#define NT_AT(field) [field] "i"(offsetof(poet_nt_cursor, field))

#define NT_TILES_BELOW(cursor)                                          \
    const float *a0, *a1, *a2, *a3, *b0, *b1, *b2, *b3;                 \
    float *out = (cursor)->out;                                         \
    int32_t tiles = (cursor)->tiles, n, t
/* clang-format on */

#endif
