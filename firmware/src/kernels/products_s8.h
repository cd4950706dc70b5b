/* SPDX-License-Identifier: Apache-2.0 */
/* Products of int8, of a column of inputs by rows of weights. A column holds all taps of two pixels, in the order in
 * which this core multiplies; every filter reads it, two filters at a time. */
#ifndef POET_KERNELS_PRODUCTS_S8_H
#define POET_KERNELS_PRODUCTS_S8_H

#include "s8.h"

/* Bytes of a column. */
static inline uint32_t poet_column_bytes(uint32_t taps)
{
    return (taps + 3u) / 4u * 16u;
}

/* A column of taps that lie `apart` bytes from each other. The second pixel lies `second` bytes behind the first. */
void poet_column_of_taps(uint32_t *column, const int8_t *x, int32_t taps, int32_t apart, int32_t second);

/* The same of `rows` windows' rows of s taps each, `width` bytes from one to the next. */
void poet_column_of_rows(uint32_t *column, const int8_t *x, int32_t rows, int32_t s, int32_t width, int32_t second);

/* Sums of both pixels by each filter, those of a filter `apart` behind those of the one before. What lies up to 3 bytes
 * behind the weights is read, and counts nothing; the two sums behind those of the last filter may be overwritten.
 * Weights 2i and 2i + 1 of a filter are not both -128. */
void poet_products_s8(const uint32_t *column, int32_t taps, const int8_t *w, int32_t filters, int32_t *sums,
                      int32_t apart);

/* A row of three taps by each filter's three: sums[i] begins with the product of the first three bytes, and the next
 * row's with those `stride` (1 or 2) further on; of all three lines. */
void poet_windows_s8(const int8_t *const *lines, int32_t stride, const int8_t *w, int32_t *sums, int32_t count);

/* The results of one filter. */
void poet_results_s8(const int32_t *sums, int32_t count, int32_t start, float scale, const poet_range_s8 *range,
                     int8_t *y);

#endif
