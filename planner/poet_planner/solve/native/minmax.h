/* SPDX-License-Identifier: Apache-2.0 */
/* The smaller and the larger of two whole numbers. */
#ifndef POET_MINMAX_H
#define POET_MINMAX_H

#include <stdint.h>

static inline int64_t smaller(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

static inline int64_t larger(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

#endif
