/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a block, with the arithmetic that suits the target. */
#ifndef POET_OPS_BLOCK_STEP_H
#define POET_OPS_BLOCK_STEP_H

#if defined(__ARM_ARCH_6M__) || defined(POET_SOFT_BLOCKS)
#include "block_soft.h"
#else
#include "block_plain.h"
#endif

#endif
