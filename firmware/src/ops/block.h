/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loop of convolutions and matrix products: rows of A times columns of B, 4 x 4 results at a time.
 *
 *     out[i][j] = start[i] + sum over channels, lines, taps of a[i][channel, line, tap] * b[channel, line, tap, j]
 *
 * Each result is one running sum in exactly that order, whatever the blocking, so that every target computes the same
 * bits. All distances are constant, counted in floats from the begin of one step to the begin of the next. A plain
 * matrix product has one tap a line: its K is `lines`.
 */
#ifndef POET_OPS_BLOCK_H
#define POET_OPS_BLOCK_H

#include <stdint.h>

#define POET_BLOCK 4

typedef struct poet_block {
    int32_t rows, columns; /* of the result; below 4 columns, B must be readable for 4 all the same */
    int32_t channels, lines, taps;
    int32_t a_row, a_channel, a_line, a_tap;
    int32_t b_column, b_channel, b_line, b_tap;
    int32_t out_row, out_column;
    int32_t strips; /* so many times the columns, B and the results being so far apart */
    int32_t b_strip, out_strip;
} poet_block;

/* Without `start`, sums begin with their first product. */
void poet_block_multiply(const poet_block *block, const float *a, const float *start, const float *b, float *out);

/* Products along rows of both factors, added to what is there:
 *
 *     out[i][j] += sum over lines, taps of a[i][line, tap] * b[j][line, tap], for up to 36 columns j
 *
 * each again one running sum in that order. A's taps and lines lie behind one another. Thirty-six columns are
 * nine blocks, and four windows of 3 x 3. */
#define POET_DOT_COLUMNS 36

typedef struct poet_dot {
    int32_t rows, columns;
    int32_t lines, taps;
    int32_t a_row;
    int32_t b_line, b_tap;
    int32_t out_row;
} poet_dot;

void poet_dot_add(const poet_dot *dot, const float *a, const float *const *b, float *out);

#endif
