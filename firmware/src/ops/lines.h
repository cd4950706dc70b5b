/* SPDX-License-Identifier: Apache-2.0 */
/* A stack of padded rows, so that the inner loops never meet a border: line (channel, row) holds `width` columns of
 * that row of that channel, from column `left` on, with zeros wherever the input has nothing. */
#ifndef POET_OPS_LINES_H
#define POET_OPS_LINES_H

#include <stdint.h>

typedef struct poet_lines {
    int32_t channels, rows, width;
    int32_t h, w; /* of one channel of the input */
    int32_t left;
} poet_lines;

/* What they take, or 0 if that is too much. */
uint32_t poet_lines_bytes(int32_t channels, int64_t rows, int64_t width);

/* To be called once before lines of a width and place are filled. */
void poet_lines_clear(const poet_lines *shape, float *lines);

/* Fills lines[channels][rows][width] from the input's rows from `top` on; what lies beside the input stays as it is. */
void poet_lines_fill(const poet_lines *shape, const float *input, int32_t top, float *lines);

#endif
