/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of 1 in units of 2^-64, by integers alone: a core's library of doubles takes 8 KB. */
#ifndef POET_KERNELS_SHARE_H
#define POET_KERNELS_SHARE_H

#include <stdint.h>

typedef uint64_t poet_share; /* 1 - s is ~s */

/* a / b, rounded down; what is next to 1 if a is not below b. */
poet_share poet_share_of(uint32_t a, uint32_t b);

/* Rounded down. */
poet_share poet_share_multiply(poet_share a, poet_share b);

/* unit * share, within a unit in the last place; of 1 the nearest float. */
float poet_share_number(float unit, poet_share share);

#endif
