/* SPDX-License-Identifier: Apache-2.0 */
/* The smaller and the larger of two numbers; of equal ones, the first. */
#ifndef POET_MINMAX_H
#define POET_MINMAX_H

#include <stdint.h>

static inline int64_t min_int(int64_t one, int64_t other)
{
    return other < one ? other : one;
}

static inline int64_t max_int(int64_t one, int64_t other)
{
    return other > one ? other : one;
}

static inline double min_double(double one, double other)
{
    return other < one ? other : one;
}

static inline double max_double(double one, double other)
{
    return other > one ? other : one;
}

#endif
