/* SPDX-License-Identifier: Apache-2.0 */
/* Every product is rounded before it is added, so that all boards and the host give the same bits. gcc does so by
 * itself in ISO mode (-std=c99), unless -ffp-contract=fast asks for the contrary. In GNU mode, in which most of
 * Arduino's cores are compiled, it would fuse the two where the core can, and a library cannot choose how it is
 * compiled: so it says so here, above all arithmetic of an operator. Where the core cannot, the pragma would only
 * change what gcc makes. poet_arithmetic_is_ieee computes what cannot be asked for here. */
#ifndef POET_KERNELS_ROUNDING_H
#define POET_KERNELS_ROUNDING_H

#include <float.h>

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "poet computes the same bits everywhere: compile it without -ffast-math, -Ofast, -funsafe-math-optimizations," \
    "-fassociative-math, -freciprocal-math, -fno-signed-zeros and -ffinite-math-only"
#endif

/* 16 is a core that has half precision as well. */
#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "poet rounds every result to float, and this is not how the x87 computes: compile it with -msse2 -mfpmath=sse"
#endif

/* Cores that run the assembly written for the Cortex-M4F, as those of the M7, M33 and M55 do: Thumb-2, and a
 * floating-point unit of single precision. */
#if defined(__ARM_ARCH_PROFILE) && defined(__thumb2__) && defined(__ARM_FP)
#define POET_FPU_ASSEMBLY (__ARM_ARCH_PROFILE == 'M' && (__ARM_FP & 4) != 0)
#else
#define POET_FPU_ASSEMBLY 0
#endif

/* Sums by the compiler's routines, beside which what a loop takes is nothing. */
#if defined(__SOFTFP__) || (defined(__riscv) && !defined(__riscv_flen))
#define POET_SOFT_FLOATS 1
#else
#define POET_SOFT_FLOATS 0
#endif

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__FP_FAST_FMAF)
#pragma GCC optimize("fp-contract=off")
#endif

#endif
