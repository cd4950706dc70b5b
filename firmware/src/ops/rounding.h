/* SPDX-License-Identifier: Apache-2.0 */
/* Every product is rounded before it is added, so that all boards and the host give the same bits. In ISO mode
 * (-std=c99) gcc does so by itself. In GNU mode, in which Arduino's cores are compiled, it would fuse the two where the
 * core can, and a library cannot choose how it is compiled: so it says so here, above all arithmetic of an operator. */
#ifndef POET_OPS_ROUNDING_H
#define POET_OPS_ROUNDING_H

#ifdef __FAST_MATH__
#error "poet computes the same bits everywhere: compile it without -ffast-math"
#endif

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && !defined(__STRICT_ANSI__)
#pragma GCC optimize("fp-contract=off")
#endif

#endif
