/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and clears spans of floats. On the Cortex-M4F by floating-point registers, sixteen at a time: the
 * library's loop takes one and a half times as long, and its call longer than a short row. */
#ifndef POET_KERNELS_SPAN_H
#define POET_KERNELS_SPAN_H

#include <stdint.h>

#include "rounding.h"

#if POET_FPU_ASSEMBLY

/* Assembler, laid out by hand. */
/* clang-format off */
#define SPAN_REGISTERS \
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15"

/* Sixteen, four and one at a time. */
#define SPAN(SIXTEEN, FOUR, ONE)                                        \
    "subs %[n], %[n], #16\n blt 2f\n"                                   \
    "1:\n" SIXTEEN "subs %[n], %[n], #16\n bge 1b\n"                    \
    "2: adds %[n], %[n], #16\n beq 6f\n subs %[n], %[n], #4\n blt 4f\n" \
    "3:\n" FOUR "subs %[n], %[n], #4\n bge 3b\n"                        \
    "4: adds %[n], %[n], #4\n beq 6f\n"                                 \
    "5:\n" ONE "subs %[n], %[n], #1\n bne 5b\n"                         \
    "6:\n"

/* Sixteen registers from s0, which holds the zero. */
#define ZEROS                                                                                    \
    "vmov.f32 s1, s0\n vmov.f32 s2, s0\n vmov.f32 s3, s0\n vmov.f32 s4, s0\n vmov.f32 s5, s0\n"  \
    "vmov.f32 s6, s0\n vmov.f32 s7, s0\n vmov.f32 s8, s0\n vmov.f32 s9, s0\n vmov.f32 s10, s0\n" \
    "vmov.f32 s11, s0\n vmov.f32 s12, s0\n vmov.f32 s13, s0\n vmov.f32 s14, s0\n vmov.f32 s15, s0\n"
/* clang-format on */

/* Both return where the span ends. */
static inline float *poet_copy(float *to, const float *from, int32_t n)
{
    __asm__ volatile(SPAN("vldmia %[from]!, {s0-s15}\n vstmia %[to]!, {s0-s15}\n",
                          "vldmia %[from]!, {s0-s3}\n vstmia %[to]!, {s0-s3}\n",
                          "vldmia %[from]!, {s0}\n vstmia %[to]!, {s0}\n")
                     : [to] "+&r"(to), [from] "+&r"(from), [n] "+&r"(n)
                     :
                     : SPAN_REGISTERS, "cc", "memory");
    return to;
}

static inline float *poet_clear(float *to, int32_t n)
{
    register float zero __asm__("s0") = 0.0f;
    __asm__ volatile(ZEROS SPAN("vstmia %[to]!, {s0-s15}\n", "vstmia %[to]!, {s0-s3}\n", "vstmia %[to]!, {s0}\n")
                     : [to] "+&r"(to), [n] "+&r"(n), "+t"(zero)
                     :
                     : "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15",
                       "cc", "memory");
    return to;
}

#else

#include <string.h>

static inline float *poet_copy(float *to, const float *from, int32_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
    return to + n;
}

static inline float *poet_clear(float *to, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = 0.0f;
    }
    return to + n;
}

#endif

#endif
