/* SPDX-License-Identifier: Apache-2.0 */
/* General matrix multiplication (GEMM) for matrix products and, as implicit GEMM, for convolutions: rows of A times
 * columns of B. A micro-kernel computes a tile of 4 x 4 results at a time.
 *
 *     out[i][j] = start[i] + sum over channels, k_rows, taps of a[i][channel, k_row, tap] * b[channel, k_row, tap, j]
 *
 * B is what im2col would make of a convolution's input, without the copies: a row of it (`k_row`) is a row of the input
 * or of its padded copy (im2col.h), which every tap of a kernel row reads, each a little further on. A plain matrix
 * product has one tap in each row: its K is `k_rows`.
 *
 * Each result is one running sum in exactly that order, whatever the tiles, so that every target computes the same
 * bits. All distances are constant. They are counted in floats from the begin of one step to the begin of the next.
 */
#ifndef POET_KERNELS_GEMM_H
#define POET_KERNELS_GEMM_H

#include <stdint.h>

#include "rounding.h"

#define POET_TILE 4 /* rows and columns of results that a micro-kernel computes at once */

typedef struct poet_gemm {
    int32_t rows, columns; /* of the result; below 4 columns, B must be readable for 4 all the same */
    int32_t channels, k_rows, taps;
    int32_t a_row, a_channel, a_k_row, a_tap;
    int32_t b_column, b_channel, b_k_row, b_tap;
    int32_t out_row, out_column;
    int32_t panels;             /* of B: so many times `columns` */
    int32_t b_panel, out_panel; /* from the begin of a panel of B, or of results, to that of the next */
} poet_gemm;

/* One of the two below. Who needs but one of them names it alone, so that the other one is not linked. */
typedef void poet_gemm_way(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out);

/* Without `start`, sums begin with their first product. */
void poet_gemm_multiply(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out);

/* Sums begin with what is in `out`, and `start` is not read: K in several parts, one after the other, gives the bits of
 * K as a whole. */
void poet_gemm_add(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out);

/* A times the transpose of B (BLAS: N, T), added to what is there. Both factors are read along their rows, and the rows
 * of B lie anywhere:
 *
 *     out[i][j] += sum over k_rows, taps of a[i][k_row, tap] * b[j][k_row, tap], for up to 36 columns j
 *
 * Each result is again one running sum in that order. A's taps and k_rows lie one after another. Thirty-six columns
 * are nine tiles, or four windows of 3 x 3. */
#define POET_GEMM_NT_COLUMNS 36

typedef struct poet_gemm_nt {
    int32_t rows, columns;
    int32_t k_rows, taps;
    int32_t a_row;
    int32_t b_k_row, b_tap;
    int32_t out_row;
} poet_gemm_nt;

void poet_gemm_nt_add(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out);

#endif
