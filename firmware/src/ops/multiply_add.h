/* SPDX-License-Identifier: Apache-2.0 */
/* Products added to the sums of a tile, with the arithmetic that suits the target. */
#ifndef POET_OPS_MULTIPLY_ADD_H
#define POET_OPS_MULTIPLY_ADD_H

#if defined(__ARM_ARCH_6M__) || defined(POET_SOFT_MULTIPLY_ADD)
#include "multiply_add_soft_inl.h"
#else
#include "multiply_add_plain_inl.h"
#endif

#endif
