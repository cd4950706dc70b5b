/* SPDX-License-Identifier: Apache-2.0 */
/* The transforms of winograd.c for the Cortex-M4F, in assembly because the compiler spills. A transformed tile is
 * sixteen registers and leaves by one store of all of them. Each operation is one of winograd_c_inl.h, in an order in
 * which no instruction uses what the one before has made. */
#ifndef POET_KERNELS_WINOGRAD_M4F_INL_H
#define POET_KERNELS_WINOGRAD_M4F_INL_H

#include "registers_m4f.h"
#include "tile_m4f.h"

/* Assembler, laid out by hand. */
/* clang-format off */
#define LOAD(s, pointer, at) "vldr " s ", [%[" pointer "], #" at "]\n"
#define ADD(d, a, b) "vadd.f32 " d ", " a ", " b "\n"
#define SUB(d, a, b) "vsub.f32 " d ", " a ", " b "\n"
#define HALVE(s, half) "vmul.f32 " s ", " s ", " half "\n"
#define NEGATE(d, a) "vneg.f32 " d ", " a "\n"
#define HALF(s) "vmov.f32 " s ", #0.5\n"

/* A column of inputs: elements in c0, d1, c2, c3. */
#define LOAD_COLUMN(c0, d1, c2, c3, at) LOAD(c0, "r0", at) LOAD(d1, "r1", at) LOAD(c2, "r2", at) LOAD(c3, "r3", at)
#define TRANSFORM_COLUMN(c0, c1, c2, c3, d1) \
    SUB(c0, c0, c2) SUB(c3, d1, c3) ADD(c1, d1, c2) SUB(c2, c2, d1) HALVE(c1, "s18") HALVE(c2, "s18")

#define ONE_COLUMN(c0, c1, c2, c3, at) HALF("s18") LOAD_COLUMN(c0, "s16", c2, c3, at) \
    TRANSFORM_COLUMN(c0, c1, c2, c3, "s16")
#define TWO_COLUMNS(c0, c1, c2, c3, c4, c5, c6, c7, at, at1) HALF("s18")        \
    LOAD_COLUMN(c0, "s16", c2, c3, at) LOAD_COLUMN(c4, "s17", c6, c7, at1)      \
    TRANSFORM_COLUMN(c0, c1, c2, c3, "s16") TRANSFORM_COLUMN(c4, c5, c6, c7, "s17")

/* A row of a transformed tile from a row of four columns. */
#define TRANSFORM_ROW(v0, v1, v2, v3, c0, c1, c2, c3) \
    SUB(v0, c0, c2) ADD(v1, c1, c2) SUB(v2, c2, c1) SUB(v3, c1, c3)
#define HALVE_EIGHT(half)                                                                                     \
    HALVE("s17", half) HALVE("s18", half) HALVE("s21", half) HALVE("s22", half) HALVE("s25", half)            \
    HALVE("s26", half) HALVE("s29", half) HALVE("s30", half)
#define STORE_TILE(pointer, step) "vstm %[" pointer "], {s16-s31}\n add %[" pointer "], %[" pointer "], " step "\n"

/* Columns 0 and 1 in s0-s7, 2 and 3 in s8-s15; or the other way round. What is not needed any more holds the half. */
#define EVEN_TILE                                                                   \
    TRANSFORM_ROW("s16", "s17", "s18", "s19", "s0", "s4", "s8", "s12")              \
    TRANSFORM_ROW("s20", "s21", "s22", "s23", "s1", "s5", "s9", "s13")              \
    TRANSFORM_ROW("s24", "s25", "s26", "s27", "s2", "s6", "s10", "s14")             \
    TRANSFORM_ROW("s28", "s29", "s30", "s31", "s3", "s7", "s11", "s15")             \
    HALF("s0") HALVE_EIGHT("s0") STORE_TILE("v", "%[v_tile]")
#define ODD_TILE                                                                    \
    TRANSFORM_ROW("s16", "s17", "s18", "s19", "s8", "s12", "s0", "s4")              \
    TRANSFORM_ROW("s20", "s21", "s22", "s23", "s9", "s13", "s1", "s5")              \
    TRANSFORM_ROW("s24", "s25", "s26", "s27", "s10", "s14", "s2", "s6")             \
    TRANSFORM_ROW("s28", "s29", "s30", "s31", "s11", "s15", "s3", "s7")             \
    HALF("s8") HALVE_EIGHT("s8") STORE_TILE("v", "%[v_tile]")

#define EVEN_COLUMNS(at, at1) TWO_COLUMNS("s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", at, at1)
#define ODD_COLUMNS(at, at1) TWO_COLUMNS("s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", at, at1)
#define NO_COLUMN(zero, c0, c1, c2, c3) \
    "vmov " c0 ", %[" zero "]\n vmov " c1 ", %[" zero "]\n vmov " c2 ", %[" zero "]\n vmov " c3 ", %[" zero "]\n"
/* The outer column, and the one beside it where it is outside, too. */
#define OUTSIDE(flag, c0, c1, c2, c3, c4, c5, c6, c7, at, both, end)                                    \
    "mov %[" flag "], #0\n" NO_COLUMN(flag, c0, c1, c2, c3) "blt " both "f\n"                           \
    ONE_COLUMN(c4, c5, c6, c7, at) "b " end "f\n" both ":\n" NO_COLUMN(flag, c4, c5, c6, c7) "b " end "f\n"

/* `first` and `last` as in C. A flag that is not above 0 becomes the zero of the columns outside. */
static inline void transform_inputs(const float *const *rows, int32_t tiles, int32_t first, int32_t last, float *v,
                                    int32_t v_tile)
{
    const float *r0 = rows[0];
    const float *r1 = rows[1];
    const float *r2 = rows[2];
    const float *r3 = rows[3];
    __asm__ volatile("cmp %[first], #0\n bgt 1f\n"
                     OUTSIDE("first", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "4", "10", "2")
                     "1:\n" EVEN_COLUMNS("0", "4")
                     "2: subs %[tiles], %[tiles], #1\n beq 3f\n" ODD_COLUMNS("8", "12") EVEN_TILE
                     "subs %[tiles], %[tiles], #1\n beq 5f\n"
                     "add %[r0], %[r0], #16\n add %[r1], %[r1], #16\n add %[r2], %[r2], #16\n"
                     "add %[r3], %[r3], #16\n" EVEN_COLUMNS("0", "4") ODD_TILE "b 2b\n"
                     "3: cmp %[last], #0\n bgt 4f\n"
                     OUTSIDE("last", "s12", "s13", "s14", "s15", "s8", "s9", "s10", "s11", "8", "11", "6")
                     "4:\n" ODD_COLUMNS("8", "12")
                     "6:\n" EVEN_TILE "b 9f\n"
                     "5: cmp %[last], #0\n bgt 7f\n"
                     OUTSIDE("last", "s4", "s5", "s6", "s7", "s0", "s1", "s2", "s3", "16", "12", "8")
                     "7:\n" EVEN_COLUMNS("16", "20")
                     "8:\n" ODD_TILE
                     "9:\n"
                     : [r0] "+&r"(r0), [r1] "+&r"(r1), [r2] "+&r"(r2), [r3] "+&r"(r3), [tiles] "+&r"(tiles),
                       [v] "+&r"(v), [first] "+&r"(first), [last] "+&r"(last)
                     : [v_tile] "r"(v_tile * 4)
                     : FP_REGISTERS, "cc", "memory");
}

/* The corners of a kernel stay what they are and are loaded to their places: g00 in s16, g02 in s19, g20 in s28, g22 in
 * s31; the others are g01 in s0, g10 to g12 in s1-s3, g21 in s4. */
#define LOAD_KERNEL(at0, at1, at2, at3, at4, at5, at6, at7, at8)                                                   \
    LOAD("s16", "w", at0) LOAD("s0", "w", at1) LOAD("s19", "w", at2) LOAD("s1", "w", at3) LOAD("s2", "w", at4)     \
    LOAD("s3", "w", at5) LOAD("s28", "w", at6) LOAD("s4", "w", at7) LOAD("s31", "w", at8)
#define TRANSFORM_KERNEL                                                                                           \
    ADD("s7", "s16", "s28") ADD("s8", "s0", "s4") ADD("s9", "s19", "s31")                                          \
    ADD("s20", "s7", "s1") ADD("s5", "s8", "s2") ADD("s23", "s9", "s3")                                            \
    SUB("s24", "s7", "s1") SUB("s6", "s8", "s2") SUB("s27", "s9", "s3")                                            \
    ADD("s18", "s16", "s19") ADD("s22", "s20", "s23") ADD("s26", "s24", "s27") ADD("s30", "s28", "s31")            \
    ADD("s17", "s18", "s0") ADD("s21", "s22", "s5") ADD("s25", "s26", "s6") ADD("s29", "s30", "s4")                \
    SUB("s18", "s18", "s0") SUB("s22", "s22", "s5") SUB("s26", "s26", "s6") SUB("s30", "s30", "s4")
#define TRANSFORM_KERNELS(LOADS)                                                                                   \
    __asm__ volatile("1:\n" LOADS "add %[w], %[w], %[step]\n" TRANSFORM_KERNEL STORE_TILE("u", "#256")             \
                     "subs %[channels], %[channels], #1\n bne 1b\n"                                                \
                     : [w] "+&r"(w), [u] "+&r"(u), [channels] "+&r"(channels)                                      \
                     : [step] "r"(step * 4)                                                                        \
                     : FP_REGISTERS, "cc", "memory")

static inline void transform_weights(const float *w, int32_t step, int32_t channels, bool turned, float *u)
{
    if (turned) {
        TRANSFORM_KERNELS(LOAD_KERNEL("32", "28", "24", "20", "16", "12", "8", "4", "0"));
    } else {
        TRANSFORM_KERNELS(LOAD_KERNEL("0", "4", "8", "12", "16", "20", "24", "28", "32"));
    }
}

#define LOAD_PLACE(at0, at1, at2, at3)                                              \
    LOAD("s0", "a", at0) LOAD("s1", "a", at1) LOAD("s2", "a", at2) LOAD("s3", "a", at3) \
    LOAD("s4", "b", at0) LOAD("s5", "b", at1) LOAD("s6", "b", at2) LOAD("s7", "b", at3)
#define PLACE_0 LOAD_PLACE("0", "64", "128", "192")
#define PLACE_1 LOAD_PLACE("256", "320", "384", "448")
#define PLACE_2 LOAD_PLACE("512", "576", "640", "704")
#define PLACE_3 LOAD_PLACE("768", "832", "896", "960")
#define PLACE_TAP TAP("s4", "s5", "s6", "s7")
#define THREE_TAPS PLACE_1 PLACE_TAP PLACE_2 PLACE_TAP PLACE_3 PLACE_TAP
#define ADVANCE_BOTH(by) "add %[a], %[a], " by "\n add %[b], %[b], " by "\n"
#define BACK_TO_NEXT_PLACE(by) "sub %[a], %[a], " by "\n sub %[b], %[b], " by "\n"
#define STORE_SUMS "vstmia %[m]!, {s16-s31}\n subs %[places], %[places], #1\n bne 1b\n"

static inline void multiply_places(const float *a, const float *b, int32_t count, float *m)
{
    int32_t places = PLACES;
    if (count == POET_WINOGRAD_PART) {
        __asm__ volatile("1:\n" PLACE_0 FIRST_FOUR THREE_TAPS ADVANCE_BOTH("#1024") PLACE_0 PLACE_TAP THREE_TAPS
                         BACK_TO_NEXT_PLACE("#1020") STORE_SUMS
                         : [a] "+&r"(a), [b] "+&r"(b), [m] "+&r"(m), [places] "+&r"(places)
                         :
                         : FP_REGISTERS, "cc", "memory");
        return;
    }
    const int32_t back = 256 * (count - 1) - 4;
    int32_t left;
    __asm__ volatile("1: mov %[left], %[count]\n" PLACE_0 FIRST_FOUR
                     "2: subs %[left], %[left], #1\n beq 3f\n" ADVANCE_BOTH("#256") PLACE_0 PLACE_TAP "b 2b\n"
                     "3:\n" BACK_TO_NEXT_PLACE("%[back]") STORE_SUMS
                     : [a] "+&r"(a), [b] "+&r"(b), [m] "+&r"(m), [places] "+&r"(places), [left] "=&r"(left)
                     : [count] "r"(count), [back] "r"(back)
                     : FP_REGISTERS, "cc", "memory");
}

/* A tile at `at` floats of M: its places in s0-s15, its results in y0 to y3. */
#define LOAD_SUMS(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15)                               \
    LOAD("s0", "m", m0) LOAD("s1", "m", m1) LOAD("s2", "m", m2) LOAD("s3", "m", m3) LOAD("s4", "m", m4)               \
    LOAD("s5", "m", m5) LOAD("s6", "m", m6) LOAD("s7", "m", m7) LOAD("s8", "m", m8) LOAD("s9", "m", m9)               \
    LOAD("s10", "m", m10) LOAD("s11", "m", m11) LOAD("s12", "m", m12) LOAD("s13", "m", m13) LOAD("s14", "m", m14)     \
    LOAD("s15", "m", m15)
#define LOAD_TILE(at)                                                                                                 \
    LOAD_SUMS(at, at " + 64", at " + 128", at " + 192", at " + 256", at " + 320", at " + 384", at " + 448",           \
              at " + 512", at " + 576", at " + 640", at " + 704", at " + 768", at " + 832", at " + 896", at " + 960")
#define RESULTS(y0, y1, y2, y3)                                                                           \
    ADD("s0", "s0", "s4") ADD("s1", "s1", "s5") ADD("s2", "s2", "s6") ADD("s3", "s3", "s7")               \
    SUB("s4", "s4", "s8") SUB("s5", "s5", "s9") SUB("s6", "s6", "s10") SUB("s7", "s7", "s11")             \
    ADD("s0", "s0", "s8") ADD("s1", "s1", "s9") ADD("s2", "s2", "s10") ADD("s3", "s3", "s11")             \
    SUB("s4", "s4", "s12") SUB("s5", "s5", "s13") SUB("s6", "s6", "s14") SUB("s7", "s7", "s15")           \
    ADD("s8", "s0", "s1") SUB("s9", "s1", "s2") ADD("s10", "s4", "s5") SUB("s11", "s5", "s6")             \
    ADD(y0, "s8", "s2") SUB(y1, "s9", "s3") ADD(y2, "s10", "s6") SUB(y3, "s11", "s7")
#define FOUR_TILES                                                                                        \
    LOAD_TILE("0") RESULTS("s16", "s17", "s24", "s25") LOAD_TILE("4") RESULTS("s18", "s19", "s26", "s27") \
    LOAD_TILE("8") RESULTS("s20", "s21", "s28", "s29") LOAD_TILE("12") RESULTS("s22", "s23", "s30", "s31")
#define ADD_PRESENT                                                                                       \
    "vldm %[y0], {s0-s3}\n vldm %[y2], {s4-s7}\n vldm %[y1], {s8-s11}\n vldm %[y3], {s12-s15}\n"          \
    ADD("s16", "s0", "s16") ADD("s17", "s1", "s17") ADD("s18", "s2", "s18") ADD("s19", "s3", "s19")       \
    ADD("s20", "s4", "s20") ADD("s21", "s5", "s21") ADD("s22", "s6", "s22") ADD("s23", "s7", "s23")       \
    ADD("s24", "s8", "s24") ADD("s25", "s9", "s25") ADD("s26", "s10", "s26") ADD("s27", "s11", "s27")     \
    ADD("s28", "s12", "s28") ADD("s29", "s13", "s29") ADD("s30", "s14", "s30") ADD("s31", "s15", "s31")
#define STORE_RESULTS                                                                                         \
    "vstm %[y0], {s16-s19}\n vstm %[y2], {s20-s23}\n vstm %[y1], {s24-s27}\n vstm %[y3], {s28-s31}\n"         \
    "add %[y0], %[y0], %[plane]\n add %[y1], %[y1], %[plane]\n add %[y2], %[y2], %[plane]\n"                  \
    "add %[y3], %[y3], %[plane]\n add %[m], %[m], #16\n subs %[filters], %[filters], #1\n bne 1b\n"
static inline void transform_outputs(const float *m, float *const *rows, int32_t plane, int32_t filters, bool adds)
{
    float *y0 = rows[0];
    float *y1 = rows[1];
    float *y2 = rows[2];
    float *y3 = rows[3];
    __asm__ volatile("1:\n" FOUR_TILES "cbz %[adds], 2f\n" ADD_PRESENT "2:\n" STORE_RESULTS
                     : [m] "+&r"(m), [y0] "+&r"(y0), [y1] "+&r"(y1), [y2] "+&r"(y2), [y3] "+&r"(y3),
                       [filters] "+&r"(filters)
                     : [plane] "r"(plane * 4), [adds] "l"((int32_t)adds)
                     : FP_REGISTERS, "cc", "memory");
}

/* The results a, b, c, d of a tile are loaded to s16, s17, s28 and s29. */
static inline void transform_gradients(const float *upper, const float *lower, int32_t tiles, float *v)
{
    __asm__ volatile("1: vldmia %[upper]!, {s16-s17}\n vldmia %[lower]!, {s28-s29}\n"
                     ADD("s20", "s16", "s28") ADD("s1", "s17", "s29") SUB("s24", "s16", "s28") SUB("s2", "s17", "s29")
                     SUB("s18", "s16", "s17") NEGATE("s19", "s17") ADD("s17", "s16", "s17")
                     ADD("s21", "s20", "s1") SUB("s22", "s20", "s1") NEGATE("s23", "s1")
                     ADD("s25", "s24", "s2") SUB("s26", "s24", "s2") NEGATE("s27", "s2") NEGATE("s28", "s28")
                     "vmov.f32 s31, s29\n" ADD("s30", "s28", "s29") SUB("s29", "s28", "s29")
                     STORE_TILE("v", "#256") "subs %[tiles], %[tiles], #1\n bne 1b\n"
                     : [upper] "+&r"(upper), [lower] "+&r"(lower), [v] "+&r"(v), [tiles] "+&r"(tiles)
                     :
                     : FP_REGISTERS, "cc", "memory");
}

/* A channel's sums in s0-s15, its gradients so far in s16-s24. */
static inline void add_gradients(const float *m, int32_t channels, float *gw)
{
    __asm__ volatile("1:\n" LOAD_TILE("0") "vldm %[gw], {s16-s24}\n add %[m], %[m], #4\n"
                     SUB("s25", "s4", "s8") SUB("s26", "s5", "s9") SUB("s27", "s6", "s10") SUB("s28", "s7", "s11")
                     ADD("s4", "s4", "s8") ADD("s5", "s5", "s9") ADD("s6", "s6", "s10") ADD("s7", "s7", "s11")
                     ADD("s0", "s0", "s4") ADD("s1", "s1", "s5") ADD("s2", "s2", "s6") ADD("s3", "s3", "s7")
                     ADD("s12", "s4", "s12") ADD("s13", "s5", "s13") ADD("s14", "s6", "s14") ADD("s15", "s7", "s15")
                     SUB("s4", "s1", "s2") SUB("s5", "s26", "s27") SUB("s6", "s13", "s14")
                     ADD("s1", "s1", "s2") ADD("s26", "s26", "s27") ADD("s13", "s13", "s14")
                     ADD("s0", "s0", "s1") ADD("s25", "s25", "s26") ADD("s12", "s12", "s13")
                     ADD("s3", "s1", "s3") ADD("s28", "s26", "s28") ADD("s15", "s13", "s15")
                     ADD("s16", "s16", "s0") ADD("s17", "s17", "s4") ADD("s18", "s18", "s3")
                     ADD("s19", "s19", "s25") ADD("s20", "s20", "s5") ADD("s21", "s21", "s28")
                     ADD("s22", "s22", "s12") ADD("s23", "s23", "s6") ADD("s24", "s24", "s15")
                     "vstmia %[gw]!, {s16-s24}\n subs %[channels], %[channels], #1\n bne 1b\n"
                     : [m] "+&r"(m), [gw] "+&r"(gw), [channels] "+&r"(channels)
                     :
                     : FP_REGISTERS, "cc", "memory");
}
/* clang-format on */

#endif
