/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of any product, for the Cortex-M4F. */
#ifndef POET_KERNELS_GENERAL_TILES_M4F_INL_H
#define POET_KERNELS_GENERAL_TILES_M4F_INL_H

#include "micro_kernel_m4f_inl.h"

/* Assembler, laid out by hand. */
/* clang-format off */
#define GENERAL(STARTED, LOAD)                                                                                      \
    __asm__ volatile(                                                                                               \
        "7:\n" STARTED                                                                                              \
        "ldr %[t], [%[w], %[all_channels]]\n str %[t], [%[w], %[channels]]\n"                                       \
        "1: ldr %[t], [%[w], %[k_rows]]\n str %[t], [%[w], %[k_row]]\n"                                             \
        "2: ldr %[n], [%[w], %[taps]]\n"                                                                            \
        "3:\n" LOAD_A("0")                                                                                          \
        LOAD                                                                                                        \
        TAP("s4", "s5", "s6", "s7")                                                                                 \
        ADVANCE_A("%[a_tap]")                                                                                       \
        "add %[b], %[b], %[b_tap]\n subs %[n], %[n], #1\n bne 3b\n"                                                 \
        "ldr %[t], [%[w], %[a_k_row]]\n ldr %[n], [%[w], %[b_k_row]]\n"                                             \
        ADVANCE_A("%[t]")                                                                                           \
        "add %[b], %[b], %[n]\n"                                                                                    \
        "ldr %[t], [%[w], %[k_row]]\n subs %[t], %[t], #1\n str %[t], [%[w], %[k_row]]\n bne 2b\n"                  \
        "ldr %[t], [%[w], %[a_channel]]\n ldr %[n], [%[w], %[b_channel]]\n"                                         \
        ADVANCE_A("%[t]")                                                                                           \
        "add %[b], %[b], %[n]\n"                                                                                    \
        "ldr %[t], [%[w], %[channels]]\n subs %[t], %[t], #1\n str %[t], [%[w], %[channels]]\n bne 1b\n"            \
        "ldr %[t], [%[w], %[out_row]]\n ldr %[n], [%[w], %[b_tile]]\n"                                              \
        STORE_BY("%[t]", "%[n]", FOUR) "bne 7b\n"                                                                   \
        : [a0] "=&r"(a0), [a1] "=&r"(a1), [a2] "=&r"(a2), [a3] "=&r"(a3), [b] "+&r"(b), [n] "=&r"(n), [t] "=&r"(t), \
          [out] "+&r"(out), [tiles] "+&r"(tiles)                                                                    \
        : [w] "r"(&bytes), [a_tap] "r"(bytes.a_tap * 4), [b_tap] "r"(bytes.b_tap * 4),                              \
          [b_column] "r"(cursor->b_column * 4), [all_channels] "i"(offsetof(poet_cursor, all_channels)),            \
          [b_tile] "i"(offsetof(poet_cursor, b_tile_bytes)), AT(start), AT(a), AT(out_row),                         \
          AT(channels), AT(k_rows), AT(k_row), AT(taps), AT(a_k_row), AT(b_k_row), AT(a_channel), AT(b_channel)     \
        : FP_REGISTERS, "cc", "memory")

#define LOAD_APART                                                                              \
    "add %[t], %[b], %[b_column]\n vldr s4, [%[b]]\n vldr s5, [%[t]]\n add %[t], %[t], %[b_column]\n" \
    "vldr s6, [%[t]]\n add %[t], %[t], %[b_column]\n vldr s7, [%[t]]\n"
/* clang-format on */

/* Any number of taps at any distances. The registers do not suffice: what changes only between k_rows stays in
 * memory, %[n] counts taps and %[t] is scratch. Not inlined, because the other tiles would pay for its variables. */
__attribute__((noinline)) static void multiply_tiles_general(const poet_cursor *cursor, int adds)
{
    const float *a0, *a1, *a2, *a3, *b = cursor->b;
    float *out = cursor->out;
    int32_t tiles = cursor->tiles, n, t;
    poet_cursor bytes = *cursor; /* with distances in bytes, from the end of the last tap or k_row */
    if (cursor->taps == 1) {     /* the innermost loop is the one without overhead */
        bytes.taps = cursor->k_rows;
        bytes.k_rows = cursor->channels;
        bytes.channels = 1;
        bytes.a_tap = cursor->a_k_row;
        bytes.b_tap = cursor->b_k_row;
        bytes.a_k_row = cursor->a_channel * 4;
        bytes.b_k_row = cursor->b_channel * 4;
        bytes.b_channel = 0;
    } else {
        bytes.a_k_row = (cursor->a_k_row - cursor->taps * cursor->a_tap) * 4;
        bytes.b_k_row = (cursor->b_k_row - cursor->taps * cursor->b_tap) * 4;
        bytes.a_channel = cursor->a_channel * 4;
        bytes.b_channel = cursor->b_channel * 4;
    }
    bytes.all_channels = bytes.channels;
    bytes.out_row = cursor->out_row * 4;
    if (adds) {
        GENERAL("ldr %[t], [%[w], %[out_row]]\n" START_FROM_RESULTS("%[t]", "%[a1]", "%[a2]") FROM_ROWS, LOAD_APART);
    } else if (cursor->b_column == 1) {
        GENERAL(FROM_ROWS START_SUMS, LOAD_FOUR);
    } else {
        GENERAL(FROM_ROWS START_SUMS, LOAD_APART);
    }
}

#endif
