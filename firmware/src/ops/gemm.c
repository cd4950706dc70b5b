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

/* A row of a plain matrix product: one tap in each k_row, columns of B and of the result contiguous. */
static int is_plain(const poet_gemm *gemm)
{
    return gemm->channels == 1 && gemm->taps == 1 && gemm->b_column == 1 && gemm->out_column == 1 &&
           gemm->columns >= POET_TILE;
}

static void multiply_plain_row(const poet_gemm *gemm, const float *a, float start, const float *b, float *out)
{
    const int32_t last = gemm->columns - POET_TILE;
    for (int32_t column = 0; column < gemm->columns; column += POET_TILE) {
        const int32_t first = column < last ? column : last;
        const float *a_at = a;
        const float *b_at = b + first;
        float sums[POET_TILE] = {start, start, start, start};
        for (int32_t k_row = gemm->k_rows; k_row > 0; k_row--) {
            poet_multiply_add_1x4(sums, *a_at, b_at[0], b_at[1], b_at[2], b_at[3]);
            a_at += gemm->a_k_row;
            b_at += gemm->b_k_row;
        }
        for (int32_t j = 0; j < POET_TILE; j++) {
            out[first + j] = sums[j];
        }
    }
}

static void multiply_row(const poet_gemm *gemm, const float *a, float start, const float *b, float *out)
{
    for (int32_t column = 0; column < gemm->columns; column += POET_TILE) {
        const int32_t past = column + POET_TILE - gemm->columns;
        const int32_t first = past > 0 && column >= past ? column - past : column;
        float sums[POET_TILE] = {start, start, start, start};
        if (gemm->b_column == 1) {
            multiply_1x4(gemm, a, b + first, 1, sums); /* lets the compiler put distances into the instructions */
        } else {
            multiply_1x4(gemm, a, b + first * gemm->b_column, gemm->b_column, sums);
        }
        for (int32_t j = first; j < gemm->columns && j < first + POET_TILE; j++) {
            out[j * gemm->out_column] = sums[j - first];
        }
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

/* Each is computed by itself: there are few, or the program lacks a kernel. Not inlined, nor is multiply_part, because
 * tiles would pay for their variables. */
__attribute__((noinline)) static void multiply_few_rows(const poet_gemm *gemm, const float *a, const float *start,
                                                        const float *b, float *out)
{
    const int plain = is_plain(gemm);
    for (int32_t row = 0; row < gemm->rows; row++) {
        const float *a_row = a + row * gemm->a_row;
        const float first = start ? start[row] : SUM_OF_NOTHING;
        float *out_row = out + row * gemm->out_row;
        for (int32_t panel = 0; panel < gemm->panels; panel++) {
            const float *b_at = b + panel * gemm->b_panel;
            float *out_at = out_row + panel * gemm->out_panel;
            if (plain) {
                multiply_plain_row(gemm, a_row, first, b_at, out_at);
            } else {
                multiply_row(gemm, a_row, first, b_at, out_at);
            }
        }
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
