/* SPDX-License-Identifier: Apache-2.0 */
/* Floats in memory, read and written as their bits. */
#ifndef POET_KERNELS_BITS_H
#define POET_KERNELS_BITS_H

#include <stdint.h>

typedef uint32_t __attribute__((may_alias)) poet_bits;

#define POET_MINUS_ZERO UINT32_C(0x80000000) /* the sign */
#define POET_INFINITY UINT32_C(0x7f800000)   /* above it, the sign apart, are NaNs */

#endif
