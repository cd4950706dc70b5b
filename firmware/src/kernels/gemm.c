/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include "gemm.h"

#include <stddef.h>

#include "cursor_inl.h"

#if POET_TILES_M4F
#include "multiply_tiles_m4f_inl.h"
#else
#include "multiply_tiles_c_inl.h"
#endif

/* The cursor's tiles side by side, in each panel. Not inlined, because the target's micro-kernels are long. */
__attribute__((noinline)) static void multiply_panels(poet_cursor *cursor, micro_kernel kernel, const poet_gemm *gemm)
{
    for (int32_t panel = gemm->panels;;) {
        multiply_tiles(cursor, kernel);
        if (--panel == 0) {
            return;
        }
        cursor->b += gemm->b_panel;
        cursor->out += gemm->out_panel;
    }
}

/* The cursor's rows, which lie whole in the result. Where the target has no way to compute the last columns alone, some
 * before them are computed with them once more: the outcome is the same. */
static void multiply_rows(poet_cursor *cursor, micro_kernel kernel, const poet_gemm *gemm, const float *b, float *out)
{
    const int32_t left = gemm->columns % POET_TILE;
    cursor->b = b;
    cursor->out = out;
    cursor->out_row = gemm->out_row;
    cursor->tiles = gemm->columns / POET_TILE;
    cursor->left = left <= 2 && suits_pair(kernel) ? left : 0;
    multiply_panels(cursor, kernel, gemm);
    if (left > cursor->left) {
        const int32_t last = gemm->columns - POET_TILE;
        cursor->b = b + last * gemm->b_column;
        cursor->out = out + last * gemm->out_column;
        cursor->tiles = 1;
        multiply_panels(cursor, kernel, gemm);
    }
}

#define PART_COLUMNS (2 * POET_TILE)

/* Fewer than four rows or columns, or columns apart: through a buffer, two tiles at a time while there are as many. */
__attribute__((noinline)) static void multiply_part(poet_cursor *cursor, micro_kernel kernel, const poet_gemm *gemm,
                                                    const float *b, float *out)
{
    float part[POET_TILE * PART_COLUMNS];
    const poet_gemm alone = {.panels = 1};
    const int32_t rows = gemm->rows < POET_TILE ? gemm->rows : POET_TILE;
    int32_t width;
    for (int32_t column = 0; column < gemm->columns; column += width) {
        width = gemm->columns - column >= PART_COLUMNS ? PART_COLUMNS : POET_TILE;
        const int32_t past = column + width - gemm->columns;
        const int32_t first = past > 0 && column >= past ? column - past : column;
        const int32_t end = first + width < gemm->columns ? first + width : gemm->columns;
        cursor->b = b + first * gemm->b_column;
        cursor->out = part;
        cursor->out_row = PART_COLUMNS;
        cursor->tiles = width / POET_TILE;
        multiply_panels(cursor, kernel, &alone);
        for (int32_t i = 0; i < rows; i++) {
            for (int32_t j = first; j < end; j++) {
                out[i * gemm->out_row + j * gemm->out_column] = part[i * PART_COLUMNS + j - first];
            }
        }
    }
}

/* Each is computed by itself, four columns at a time and the last ones with some before them: there are few, or the
 * program lacks a kernel. Not inlined, nor is multiply_part, because tiles would pay for their variables. */
__attribute__((noinline)) static void multiply_few_rows(const poet_gemm *gemm, const float *a, const float *start,
                                                        const float *b, float *out)
{
    const int32_t width = gemm->columns < POET_TILE ? gemm->columns : POET_TILE;
    const int32_t last = gemm->columns - width;
    for (int32_t row = 0; row < gemm->rows; row++) {
        const float first_sum = start ? start[row] : SUM_OF_NOTHING;
        for (int32_t panel = 0; panel < gemm->panels; panel++) {
            for (int32_t column = 0; column < gemm->columns; column += POET_TILE) {
                const int32_t first = column < last ? column : last;
                float sums[POET_TILE] = {first_sum, first_sum, first_sum, first_sum};
                multiply_1x4(gemm, a, b + panel * gemm->b_panel + first * gemm->b_column, sums);
                float *out_at = out + panel * gemm->out_panel + first * gemm->out_column;
                for (int32_t j = 0; j < width; j++) {
                    out_at[j * gemm->out_column] = sums[j];
                }
            }
        }
        a += gemm->a_row;
        out += gemm->out_row;
    }
}

void poet_gemm_multiply(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out)
{
    if (multiply_vector(gemm, a, start, b, out)) {
        return;
    }
    if (gemm->rows <= FEW_ROWS) {
        multiply_few_rows(gemm, a, start, b, out);
        return;
    }
    poet_cursor cursor;
    cursor_begin(&cursor, gemm, start != NULL);
    const micro_kernel kernel = choose_micro_kernel(&cursor, gemm);
    if (!has_tiles(kernel)) {
        multiply_few_rows(gemm, a, start, b, out);
        return;
    }
    const int in_place = stores_in_place(kernel, gemm);
    for (int32_t row = 0; row < gemm->rows; row += cursor.rows) {
        const int32_t past = row + cursor.rows - gemm->rows;
        const int32_t first = past > 0 && row >= past ? row - past : row;
        cursor_set_rows(&cursor, gemm, a, start, first);
        if (in_place) {
            multiply_rows(&cursor, kernel, gemm, b, out + first * gemm->out_row);
        } else {
            for (int32_t panel = 0; panel < gemm->panels; panel++) {
                multiply_part(&cursor, kernel, gemm, b + panel * gemm->b_panel,
                              out + first * gemm->out_row + panel * gemm->out_panel);
            }
        }
    }
}
