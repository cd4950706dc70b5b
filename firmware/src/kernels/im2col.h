/* SPDX-License-Identifier: Apache-2.0 */
/* im2col without its copies: padded rows of the input, so that the inner loops never meet a border. Row (channel, row)
 * of the matrix holds `width` columns of that row of that channel, from column `left` on, with zeros wherever the input
 * has nothing. Each tap of a kernel row reads the same row of the matrix, at a column of its own. */
#ifndef POET_KERNELS_IM2COL_H
#define POET_KERNELS_IM2COL_H

#include <stdint.h>

typedef struct poet_im2col {
    int32_t channels, rows, width;
    int32_t h, w; /* of one channel of the input */
    int32_t left;
} poet_im2col;

/* What the matrix takes, or 0 if that is too much. */
uint32_t poet_im2col_bytes(int32_t channels, int64_t rows, int64_t width);

/* To be called once before a matrix of that width and place is filled. */
void poet_im2col_clear(const poet_im2col *shape, float *matrix);

/* Fills matrix[channels][rows][width] with the input's rows from `top` on. What lies beside the input stays as it is.
 */
void poet_im2col_fill(const poet_im2col *shape, const float *input, int32_t top, float *matrix);

#endif
