/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers as a function of where they stand, with no state to keep: Threefry-2x32 with 20 rounds (Salmon et al.,
 * Parallel random numbers: as easy as 1, 2, 3, SC 2011). */
#ifndef POET_KERNELS_THREEFRY_H
#define POET_KERNELS_THREEFRY_H

#include <stdint.h>

#include "rounding.h"

/* Two words of random bits for a key and a counter of two words each. */
void poet_threefry(const uint32_t key[2], const uint32_t counter[2], uint32_t out[2]);

#endif
