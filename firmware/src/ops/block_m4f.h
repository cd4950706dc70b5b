/* The 4 x 4 block for the Cortex-M4F, in assembly because the compiler spills: 16 sums in s16-s31, four elements of A in
 * s0-s3, of B in s4-s7 and s12-s15, products in s8-s11. A product and its sum stand four instructions apart, because a
 * result that the next instruction uses costs a cycle. Loads stand together, because neighbouring ones overlap. The
 * products are rounded before they are added, as in C without contraction. */
#ifndef POET_OPS_BLOCK_M4F_H
#define POET_OPS_BLOCK_M4F_H

#include "block_walk.h"

typedef enum walk_kind {
    WALK_GENERAL,
    WALK_SINGLES,          /* one tap a line, A contiguous, columns of B contiguous */
    WALK_SINGLES_APART,    /* the same, but every second element of B */
    WALK_TRIPLES,          /* three taps a line */
    WALK_TRIPLES_APART,    /* the same, but every second element of B */
    WALK_TRIPLES_REVERSED  /* the same as WALK_TRIPLES, but taps of B descend */
} walk_kind;

static inline walk_kind kind_of(const poet_block *block)
{
    if (block->taps == 1 && block->a_line == 1 && (block->b_column == 1 || block->b_column == 2)) {
        return block->b_column == 1 ? WALK_SINGLES : WALK_SINGLES_APART;
    }
    if (block->taps == 3 && block->a_tap == 1 && block->b_tap == 1 && (block->b_column == 1 || block->b_column == 2)) {
        return block->b_column == 1 ? WALK_TRIPLES : WALK_TRIPLES_APART;
    }
    if (block->taps == 3 && block->a_tap == 1 && block->b_tap == -1 && block->b_column == 1) {
        return WALK_TRIPLES_REVERSED;
    }
    return WALK_GENERAL;
}

#define ROW(a, b0, b1, b2, b3, c0, c1, c2, c3)                                                     \
    "vmul.f32 s8, " a ", " b0 "\n vmul.f32 s9, " a ", " b1 "\n"                                    \
    "vmul.f32 s10, " a ", " b2 "\n vmul.f32 s11, " a ", " b3 "\n"                                  \
    "vadd.f32 " c0 ", " c0 ", s8\n vadd.f32 " c1 ", " c1 ", s9\n"                                  \
    "vadd.f32 " c2 ", " c2 ", s10\n vadd.f32 " c3 ", " c3 ", s11\n"

#define TAP(b0, b1, b2, b3)                                 \
    ROW("s0", b0, b1, b2, b3, "s16", "s17", "s18", "s19")   \
    ROW("s1", b0, b1, b2, b3, "s20", "s21", "s22", "s23")   \
    ROW("s2", b0, b1, b2, b3, "s24", "s25", "s26", "s27")   \
    ROW("s3", b0, b1, b2, b3, "s28", "s29", "s30", "s31")

#define LOAD_A(at)                                                                       \
    "vldr s0, [%[a0], #" at "]\n vldr s1, [%[a1], #" at "]\n"                            \
    "vldr s2, [%[a2], #" at "]\n vldr s3, [%[a3], #" at "]\n"

#define LOAD_B(s, at) "vldr " s ", [%[b], #" at "]\n"

#define LOAD_B4(s0, at0, s1, at1, s2, at2, s3, at3) LOAD_B(s0, at0) LOAD_B(s1, at1) LOAD_B(s2, at2) LOAD_B(s3, at3)

#define ADVANCE_A(by)                                       \
    "add %[a0], %[a0], " by "\n add %[a1], %[a1], " by "\n" \
    "add %[a2], %[a2], " by "\n add %[a3], %[a3], " by "\n"

#define START                                                                                   \
    "vldr s16, [%[w], %[start]]\n vldr s20, [%[w], %[start] + 4]\n"                              \
    "vldr s24, [%[w], %[start] + 8]\n vldr s28, [%[w], %[start] + 12]\n"                         \
    "vmov.f32 s17, s16\n vmov.f32 s18, s16\n vmov.f32 s19, s16\n"                                \
    "vmov.f32 s21, s20\n vmov.f32 s22, s20\n vmov.f32 s23, s20\n"                                \
    "vmov.f32 s25, s24\n vmov.f32 s26, s24\n vmov.f32 s27, s24\n"                                \
    "vmov.f32 s29, s28\n vmov.f32 s30, s28\n vmov.f32 s31, s28\n"

#define STORE(n)                                                                                              \
    "ldr " n ", [%[w], %[out]]\n ldr %[a0], [%[w], %[out_row]]\n"                                             \
    "add %[a1], " n ", %[a0], lsl #2\n add %[a2], " n ", %[a0], lsl #3\n add %[a3], %[a1], %[a0], lsl #3\n"   \
    "vstm " n ", {s16-s19}\n vstm %[a1], {s20-s23}\n vstm %[a2], {s24-s27}\n vstm %[a3], {s28-s31}\n"

#define FP_REGISTERS                                                                                      \
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", \
        "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26", "s27", "s28", "s29", \
        "s30", "s31"

/* The frame around `LINE`, which must work on one line and advance to the next; %[n] counts lines. */
#define WALK(LINE)                                                                                          \
    __asm__ volatile(                                                                                       \
        START                                                                                               \
        "ldr %[n], [%[w], %[lines]]\n"                                                                      \
        "1:\n" LINE                                                                                         \
        "subs %[channels], %[channels], #1\n"                                                                            \
        "beq 9f\n"                                                                                          \
        "ldr %[n], [%[w], %[a_channel]]\n" ADVANCE_A("%[n], lsl #2")                                        \
        "ldr %[n], [%[w], %[b_channel]]\n add %[b], %[b], %[n], lsl #2\n"                                   \
        "ldr %[n], [%[w], %[lines]]\n"                                                                      \
        "b 1b\n"                                                                                            \
        "9:\n"                                                                                              \
        STORE("%[n]")                                                                                       \
        : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [b] "+r"(b), [n] "=&r"(n),            \
          [channels] "+r"(channels)                                                                         \
        : [w] "r"(walk), [a_line] "r"(a_line), [b_line] "r"(b_line), [start] "i"(offsetof(poet_walk, start)), \
          [a_channel] "i"(offsetof(poet_walk, a_channel)), [b_channel] "i"(offsetof(poet_walk, b_channel)), \
          [lines] "i"(offsetof(poet_walk, lines)), [out] "i"(offsetof(poet_walk, out)),                     \
          [out_row] "i"(offsetof(poet_walk, out_row))                                                       \
        : FP_REGISTERS, "cc", "memory")

#define NEXT_LINE "subs %[n], %[n], #1\n bne 2b\n"

#define TRIPLES(TAPS) WALK("2:\n" TAPS ADVANCE_A("%[a_line]") "add %[b], %[b], %[b_line]\n" NEXT_LINE)

/* Four lines at a time, then one by one. */
#define SINGLES(LOAD)                                                                          \
    WALK("subs %[n], %[n], #4\n blt 3f\n"                                                            \
         "2:\n"                                                                                \
         LOAD_A("0") LOAD TAP("s4", "s5", "s6", "s7") "add %[b], %[b], %[b_line]\n"             \
         LOAD_A("4") LOAD TAP("s4", "s5", "s6", "s7") "add %[b], %[b], %[b_line]\n"             \
         LOAD_A("8") LOAD TAP("s4", "s5", "s6", "s7") "add %[b], %[b], %[b_line]\n"             \
         LOAD_A("12") LOAD TAP("s4", "s5", "s6", "s7") "add %[b], %[b], %[b_line]\n"            \
         ADVANCE_A("#16")                                                                       \
         "subs %[n], %[n], #4\n bge 2b\n"                                                            \
         "3: adds %[n], %[n], #4\n beq 5f\n"                                                         \
         "4:\n"                                                                                \
         LOAD_A("0") LOAD TAP("s4", "s5", "s6", "s7") "add %[b], %[b], %[b_line]\n"             \
         ADVANCE_A("#4")                                                                        \
         "subs %[n], %[n], #1\n bne 4b\n"                                                            \
         "5:\n")

/* Any number of taps at any distances. What changes only between lines stays in memory: the registers do not suffice. */
static inline void multiply_4x4_general(const poet_walk *walk)
{
    const float *a0 = walk->a[0];
    const float *a1 = walk->a[1];
    const float *a2 = walk->a[2];
    const float *a3 = walk->a[3];
    const float *b = walk->b;
    const int32_t a_tap = walk->a_tap * 4;
    const int32_t b_tap = walk->b_tap * 4;
    const int32_t b_column = walk->b_column * 4;
    poet_walk rest = *walk; /* its counters run down, its distances are in bytes from behind a line's last tap */
    rest.a_line = (walk->a_line - walk->taps * walk->a_tap) * 4;
    rest.b_line = (walk->b_line - walk->taps * walk->b_tap) * 4;
    rest.a_channel = walk->a_channel * 4;
    rest.b_channel = walk->b_channel * 4;
    int32_t taps, t;
    __asm__ volatile(
        START
        "1: ldr %[t], [%[w], %[all_lines]]\n str %[t], [%[w], %[lines]]\n"
        "2: ldr %[taps], [%[w], %[all_taps]]\n"
        "3:\n"
        LOAD_A("0")
        "vldr s4, [%[b]]\n add %[t], %[b], %[b_column]\n vldr s5, [%[t]]\n add %[t], %[t], %[b_column]\n"
        "vldr s6, [%[t]]\n add %[t], %[t], %[b_column]\n vldr s7, [%[t]]\n"
        TAP("s4", "s5", "s6", "s7")
        ADVANCE_A("%[a_tap]")
        "add %[b], %[b], %[b_tap]\n subs %[taps], %[taps], #1\n bne 3b\n"
        "ldr %[t], [%[w], %[a_line]]\n ldr %[taps], [%[w], %[b_line]]\n"
        ADVANCE_A("%[t]")
        "add %[b], %[b], %[taps]\n"
        "ldr %[t], [%[w], %[lines]]\n subs %[t], %[t], #1\n str %[t], [%[w], %[lines]]\n bne 2b\n"
        "ldr %[t], [%[w], %[a_channel]]\n ldr %[taps], [%[w], %[b_channel]]\n"
        ADVANCE_A("%[t]")
        "add %[b], %[b], %[taps]\n"
        "ldr %[t], [%[w], %[channels]]\n subs %[t], %[t], #1\n str %[t], [%[w], %[channels]]\n bne 1b\n"
        STORE("%[t]")
        : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [b] "+r"(b), [taps] "=&r"(taps), [t] "=&r"(t)
        : [w] "r"(&rest), [a_tap] "r"(a_tap), [b_tap] "r"(b_tap), [b_column] "r"(b_column),
          [start] "i"(offsetof(poet_walk, start)), [out] "i"(offsetof(poet_walk, out)),
          [out_row] "i"(offsetof(poet_walk, out_row)), [channels] "i"(offsetof(poet_walk, channels)),
          [lines] "i"(offsetof(poet_walk, lines)), [all_lines] "i"(offsetof(poet_walk, all_lines)),
          [all_taps] "i"(offsetof(poet_walk, taps)), [a_line] "i"(offsetof(poet_walk, a_line)),
          [b_line] "i"(offsetof(poet_walk, b_line)), [a_channel] "i"(offsetof(poet_walk, a_channel)),
          [b_channel] "i"(offsetof(poet_walk, b_channel))
        : FP_REGISTERS, "cc", "memory");
}

static inline void multiply_4x4(const poet_walk *walk, walk_kind kind)
{
    const float *a0 = walk->a[0];
    const float *a1 = walk->a[1];
    const float *a2 = walk->a[2];
    const float *a3 = walk->a[3];
    const float *b = walk->b;
    int32_t channels = walk->channels;
    int32_t n;
    const int32_t a_line = walk->a_line * 4;
    const int32_t b_line = walk->b_line * 4;
    switch (kind) {
    case WALK_SINGLES:
        SINGLES(LOAD_B4("s4", "0", "s5", "4", "s6", "8", "s7", "12"));
        break;
    case WALK_SINGLES_APART:
        SINGLES(LOAD_B4("s4", "0", "s5", "8", "s6", "16", "s7", "24"));
        break;
    case WALK_TRIPLES: /* columns slide over s4-s7, s12, s13 */
        TRIPLES(LOAD_A("0") LOAD_B4("s4", "0", "s5", "4", "s6", "8", "s7", "12") TAP("s4", "s5", "s6", "s7")
                LOAD_A("4") LOAD_B("s12", "16") TAP("s5", "s6", "s7", "s12")
                LOAD_A("8") LOAD_B("s13", "20") TAP("s6", "s7", "s12", "s13"));
        break;
    case WALK_TRIPLES_APART:
        TRIPLES(LOAD_A("0") LOAD_B4("s4", "0", "s5", "8", "s6", "16", "s7", "24") TAP("s4", "s5", "s6", "s7")
                LOAD_A("4") LOAD_B4("s12", "4", "s13", "12", "s14", "20", "s15", "28") TAP("s12", "s13", "s14", "s15")
                LOAD_A("8") LOAD_B("s4", "32") TAP("s5", "s6", "s7", "s4"));
        break;
    case WALK_TRIPLES_REVERSED:
        TRIPLES(LOAD_A("0") LOAD_B4("s4", "0", "s5", "4", "s6", "8", "s7", "12") TAP("s4", "s5", "s6", "s7")
                LOAD_A("4") LOAD_B("s12", "-4") TAP("s12", "s4", "s5", "s6")
                LOAD_A("8") LOAD_B("s13", "-8") TAP("s13", "s12", "s4", "s5"));
        break;
    case WALK_GENERAL:
        multiply_4x4_general(walk);
        break;
    }
}

#endif
