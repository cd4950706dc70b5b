/* SPDX-License-Identifier: Apache-2.0 */
/* Micro-kernels of A times the transpose of B for the Cortex-M4F: tiles of 4 x 4, or 4 x 2, in the registers of
 * micro_kernel_m4f_inl.h, and single rows. */
#ifndef POET_OPS_MICRO_KERNEL_NT_M4F_INL_H
#define POET_OPS_MICRO_KERNEL_NT_M4F_INL_H

#include "micro_kernel_m4f_inl.h"
#include "weight_gradient_m4f_inl.h"

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
/* clang-format on */

/* Whether nt_add_tiles takes so many columns. */
static inline int suits_nt_tiles(const poet_gemm_nt *gemm, int32_t columns)
{
    return columns == POET_TILE || (columns == 2 && gemm->b_tap == 1);
}

/* Any distance between the taps of B. */
static inline void nt_add_tiles_strided(const poet_nt_cursor *cursor)
{
    const int32_t a_tile = cursor->a_gap_bytes / (int32_t)sizeof(float) + cursor->k_rows * cursor->taps;
    float *out = cursor->out;
    for (int32_t tile = 0; tile < cursor->tiles; tile++) {
        for (int32_t i = 0; i < POET_TILE; i++) {
            for (int32_t j = 0; j < POET_TILE; j++) {
                const float *a = cursor->a[i] + tile * a_tile;
                const float *b = cursor->b[j];
                float sum = out[j];
                for (int32_t k_row = 0; k_row < cursor->k_rows; k_row++) {
                    for (int32_t tap = 0; tap < cursor->taps; tap++) {
                        sum += *a++ * b[tap * cursor->b_tap];
                    }
                    b += cursor->b_k_row;
                }
                out[j] = sum;
            }
            out += cursor->out_row;
        }
    }
}

static inline void nt_add_tiles(const poet_nt_cursor *cursor)
{
    const float *a0, *a1, *a2, *a3, *b0, *b1, *b2, *b3;
    float *out = cursor->out;
    int32_t tiles = cursor->tiles, n, t;
    if (tiles == 0) {
        return;
    }
    if (cursor->b_tap == 1 && cursor->columns == 2) {
        NT_TILES(TWO, NT_PAIR_STEP, ADVANCE_B_PAIR, "4", "8", "12", "16", "20", "24", "28", "32");
    } else if (cursor->b_tap == 1) {
        NT_TILES(FOUR, NT_STEP, ADVANCE_B, "4", "8", "12", "16", "20", "24", "28", "32");
    } else if (cursor->b_tap == 2) {
        NT_TILES(FOUR, NT_STEP, ADVANCE_B, "8", "16", "24", "32", "40", "48", "56", "64");
    } else {
        nt_add_tiles_strided(cursor);
    }
}

/* Assembler, laid out by hand. */
/* clang-format off */
/* One row with columns whose taps lie one after another, eight taps at a time and then one by one: eight taps of A in
 * s0-s7, of two columns of B in s8-s15 and s16-s23, where the products take their places, and up to eight sums. The
 * additions to two sums take turns, so that none waits for the one before. */
#define ROW_PRODUCTS(b0, b1, b2, b3, b4, b5, b6, b7)                                            \
    "vmul.f32 " b0 ", s0, " b0 "\n vmul.f32 " b1 ", s1, " b1 "\n vmul.f32 " b2 ", s2, " b2 "\n" \
    "vmul.f32 " b3 ", s3, " b3 "\n vmul.f32 " b4 ", s4, " b4 "\n vmul.f32 " b5 ", s5, " b5 "\n" \
    "vmul.f32 " b6 ", s6, " b6 "\n vmul.f32 " b7 ", s7, " b7 "\n"

#define ROW_ADD(c, p, d, q) "vadd.f32 " c ", " c ", " p "\n vadd.f32 " d ", " d ", " q "\n"

#define ROW_EIGHT_TAPS(b, c, d_b, d)                                                    \
    "vldmia %[" b "]!, {s8-s15}\n vldmia %[" d_b "]!, {s16-s23}\n"                      \
    ROW_PRODUCTS("s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15")                  \
    ROW_PRODUCTS("s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23")                \
    ROW_ADD(c, "s8", d, "s16") ROW_ADD(c, "s9", d, "s17") ROW_ADD(c, "s10", d, "s18")   \
    ROW_ADD(c, "s11", d, "s19") ROW_ADD(c, "s12", d, "s20") ROW_ADD(c, "s13", d, "s21") \
    ROW_ADD(c, "s14", d, "s22") ROW_ADD(c, "s15", d, "s23")

#define ROW_ONE_TAP(b, c, d_b, d)                          \
    "vldmia %[" b "]!, {s8}\n vldmia %[" d_b "]!, {s16}\n" \
    "vmul.f32 s8, s0, s8\n vmul.f32 s16, s0, s16\n" ROW_ADD(c, "s8", d, "s16")

#define ROW_TWO_COLUMNS(STEP) STEP("b0", "s24", "b1", "s25")
#define ROW_EIGHT_COLUMNS(STEP)                                   \
    STEP("b0", "s24", "b1", "s25") STEP("b2", "s26", "b3", "s27") \
    STEP("b4", "s28", "b5", "s29") STEP("b6", "s30", "b7", "s31")

#define ROW_TAPS(COLUMNS, LAST_SUM, ...)                                                      \
    __asm__ volatile("vldm %[sums], {s24-" LAST_SUM "}\n"                                     \
                     "subs %[n], %[n], #8\n blt 2f\n"                                         \
                     "1: vldmia %[a]!, {s0-s7}\n" COLUMNS(ROW_EIGHT_TAPS)                     \
                     "subs %[n], %[n], #8\n bge 1b\n"                                         \
                     "2: adds %[n], %[n], #8\n beq 4f\n"                                      \
                     "3: vldmia %[a]!, {s0}\n" COLUMNS(ROW_ONE_TAP)                           \
                     "subs %[n], %[n], #1\n bne 3b\n"                                         \
                     "4: vstm %[sums], {s24-" LAST_SUM "}\n"                                  \
                     : [a] "+&r"(a), [n] "+&r"(n), [b0] "+&r"(b0), [b1] "+&r"(b1) __VA_ARGS__ \
                     : [sums] "r"(sums)                                                       \
                     : FP_REGISTERS, "cc", "memory")
/* clang-format on */

static inline void add_taps_1x8(int32_t n, float *sums, const float *a, const float *const *b, ptrdiff_t at)
{
    const float *b0 = b[0] + at, *b1 = b[1] + at, *b2 = b[2] + at, *b3 = b[3] + at;
    const float *b4 = b[4] + at, *b5 = b[5] + at, *b6 = b[6] + at, *b7 = b[7] + at;
    ROW_TAPS(ROW_EIGHT_COLUMNS, "s31",
             , [b2] "+&r"(b2), [b3] "+&r"(b3), [b4] "+&r"(b4), [b5] "+&r"(b5), [b6] "+&r"(b6), [b7] "+&r"(b7));
}

static inline void add_taps_1x2(int32_t n, float *sums, const float *a, const float *const *b, ptrdiff_t at)
{
    const float *b0 = b[0] + at, *b1 = b[1] + at;
    ROW_TAPS(ROW_TWO_COLUMNS, "s25", );
}

/* Adds the products of one row with as many columns as it can, and returns how many. */
static inline int32_t nt_add_row_quickly(const poet_gemm_nt *gemm, int32_t columns, const float *a,
                                         const float *const *b, float *out)
{
    int32_t done = 0;
    if (gemm->b_tap != 1) {
        return 0;
    }
    for (int32_t k_row = 0; k_row < gemm->k_rows; k_row++) {
        for (done = 0; done + 8 <= columns; done += 8) {
            add_taps_1x8(gemm->taps, out + done, a, b + done, k_row * gemm->b_k_row);
        }
        for (; done + 2 <= columns; done += 2) {
            add_taps_1x2(gemm->taps, out + done, a, b + done, k_row * gemm->b_k_row);
        }
        a += gemm->taps;
    }
    return done;
}

#endif
