/* SPDX-License-Identifier: Apache-2.0 */
#include "im2col.h"

#include "shape.h"
#include "span.h"

uint32_t poet_im2col_bytes(int32_t channels, int64_t rows, int64_t width)
{
    return rows > INT32_MAX || width > INT32_MAX ? 0 : 4 * poet_count(channels, (int32_t)rows, (int32_t)width, 1);
}

void poet_im2col_clear(const poet_im2col *shape, float *matrix)
{
    poet_clear(matrix, shape->channels * shape->rows * shape->width);
}

/* How many of `count` rows from `top` on lie before row `end`. */
static int32_t rows_before(int32_t end, int32_t top, int32_t count)
{
    const int32_t rows = end - top;
    return rows < 0 ? 0 : rows > count ? count : rows;
}

static float *clear_rows(float *matrix, int32_t rows, int32_t inside, int32_t width)
{
    for (; rows > 0; rows--) {
        poet_clear(matrix, inside);
        matrix += width;
    }
    return matrix;
}

void poet_im2col_fill(const poet_im2col *shape, const float *input, int32_t top, float *matrix)
{
    const int32_t width = shape->width;
    const int32_t before = shape->left < 0 ? -shape->left : 0;
    const int32_t past = shape->left + width - shape->w;
    const int32_t inside = width - before - (past > 0 ? past : 0);
    const int32_t above = rows_before(0, top, shape->rows);
    const int32_t rows = rows_before(shape->h, top, shape->rows) - above;
    if (inside <= 0) {
        return;
    }
    matrix += before;
    input += (top + above) * shape->w + shape->left + before;
    for (int32_t channel = 0; channel < shape->channels; channel++) {
        const float *row = input;
        matrix = clear_rows(matrix, above, inside, width);
        for (int32_t left = rows; left > 0; left--) {
            poet_copy(matrix, row, inside);
            row += shape->w;
            matrix += width;
        }
        matrix = clear_rows(matrix, shape->rows - above - rows, inside, width);
        input += shape->h * shape->w;
    }
}
