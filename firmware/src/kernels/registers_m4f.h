/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of the Cortex-M4F, for assembly: which general ones it may have, and the floating-point unit's, as the
 * list of what it clobbers. */
#ifndef POET_KERNELS_REGISTERS_M4F_H
#define POET_KERNELS_REGISTERS_M4F_H

#include "rounding.h"

/* Some assembly takes every general register, the frame pointer's too, or all but one. gcc gives them at -O2 without a
 * frame pointer, whatever the build asks for, if it reads so above the first function of a file: files with such
 * assembly include this first. clang keeps the frame pointer, has no such pragma, and no macro that says what it does:
 * there C that computes the same takes the place of what needs every register, as it does in any build that says 0. */
#ifndef POET_EVERY_REGISTER
#ifdef __clang__
#define POET_EVERY_REGISTER 0
#else
#define POET_EVERY_REGISTER 1
#endif
#endif

#if POET_FPU_ASSEMBLY && !defined(__clang__)
#pragma GCC optimize("O2", "omit-frame-pointer")
#endif

#define FP_REGISTERS                                                                                             \
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", "s16", \
        "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26", "s27", "s28", "s29", "s30", "s31"

#endif
