/* SPDX-License-Identifier: Apache-2.0 */
/* Loops that take four elements at a time, and the last ones one by one: loads, products and sums of the four take
 * turns, so that none waits for the one before. Sums stay in the order of the elements. A core that computes floats in
 * software gains nothing by it: there all are taken one by one. */
#ifndef POET_OPS_FOURS_H
#define POET_OPS_FOURS_H

#include <stdint.h>

#include "../kernels/rounding.h"

#define POET_TAKES_FOURS !POET_SOFT_FLOATS

/* Of so many elements: how often four are taken, and how many are left then. */
static inline int32_t poet_fours(int32_t elements)
{
    return POET_TAKES_FOURS ? (int32_t)((uint32_t)elements / 4) : 0;
}

static inline int32_t poet_ones(int32_t elements)
{
    return POET_TAKES_FOURS ? (int32_t)((uint32_t)elements % 4) : elements;
}

#endif
