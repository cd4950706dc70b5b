/* SPDX-License-Identifier: Apache-2.0 */
#include "gemm.h"

#include <stddef.h>

#include "micro_kernel.h"
#include "multiply_add.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)
#include "micro_kernel_m4f_inl.h"
#else
#include "micro_kernel_c_inl.h"
#endif

/* Channels of one k_row each are the k_rows of a single channel. */
static void cursor_begin(poet_cursor *cursor, const poet_gemm *gemm, int started)
{
    const int32_t one_k_row = gemm->k_rows == 1;
    cursor->start[0] = cursor->start[1] = cursor->start[2] = cursor->start[3] = SUM_OF_NOTHING;
    cursor->started = started;
    cursor->left = 0;
    cursor->channels = one_k_row ? 1 : gemm->channels;
    cursor->k_rows = one_k_row ? gemm->channels : gemm->k_rows;
    cursor->taps = gemm->taps;
    cursor->a_channel = one_k_row ? 0 : gemm->a_channel - gemm->k_rows * gemm->a_k_row;
    cursor->a_k_row = one_k_row ? gemm->a_channel : gemm->a_k_row;
    cursor->a_tap = gemm->a_tap;
    cursor->b_channel = one_k_row ? 0 : gemm->b_channel - gemm->k_rows * gemm->b_k_row;
    cursor->b_k_row = one_k_row ? gemm->b_channel : gemm->b_k_row;
    cursor->b_tap = gemm->b_tap;
    cursor->b_column = gemm->b_column;
}

/* Rows beyond the last one repeat it: their results are dropped. */
static void cursor_set_rows(poet_cursor *cursor, const poet_gemm *gemm, const float *a, const float *start,
                            int32_t first)
{
    const int32_t last = gemm->rows - 1 - first;
    const int32_t a_row = gemm->a_row;
    const float *row = a + first * a_row;
    cursor->a[0] = row;
    cursor->a[1] = row += last >= 1 ? a_row : 0;
    cursor->a[2] = row += last >= 2 ? a_row : 0;
    cursor->a[3] = row + (last >= 3 ? a_row : 0);
    if (start) {
        for (int32_t i = 0; i < POET_TILE; i++) {
            cursor->start[i] = start[i < last ? first + i : first + last];
        }
    }
}

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

/* So few that a tile would mostly compute what is dropped. */
#define FEW_ROWS 2
#define FEW_COLUMNS 2

/* One row and four columns; `sums` come in as they begin. */
static inline void multiply_1x4(const poet_gemm *gemm, const float *a, const float *b, int32_t b_column, float *sums)
{
    float s[POET_TILE] = {sums[0], sums[1], sums[2], sums[3]};
    for (int32_t channel = 0; channel < gemm->channels; channel++) {
        for (int32_t k_row = 0; k_row < gemm->k_rows; k_row++) {
            const float *a_at = a + channel * gemm->a_channel + k_row * gemm->a_k_row;
            const float *b_at = b + channel * gemm->b_channel + k_row * gemm->b_k_row;
            for (int32_t tap = 0; tap < gemm->taps; tap++) {
                multiply_add_1x4(s, *a_at, b_at[0], b_at[b_column], b_at[2 * b_column], b_at[3 * b_column]);
                a_at += gemm->a_tap;
                b_at += gemm->b_tap;
            }
        }
    }
    for (int32_t j = 0; j < POET_TILE; j++) {
        sums[j] = s[j];
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
            multiply_add_1x4(sums, *a_at, b_at[0], b_at[1], b_at[2], b_at[3]);
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

/* Fewer than four rows or columns, or columns apart: tile by tile through a buffer. */
__attribute__((noinline)) static void multiply_part(poet_cursor *cursor, micro_kernel kernel, const poet_gemm *gemm,
                                                    const float *b, float *out)
{
    float part[POET_TILE * POET_TILE];
    const poet_gemm alone = {.panels = 1};
    const int32_t rows = gemm->rows < POET_TILE ? gemm->rows : POET_TILE;
    for (int32_t column = 0; column < gemm->columns; column += POET_TILE) {
        const int32_t past = column + POET_TILE - gemm->columns;
        const int32_t first = past > 0 && column >= past ? column - past : column;
        const int32_t end = first + POET_TILE < gemm->columns ? first + POET_TILE : gemm->columns;
        cursor->b = b + first * gemm->b_column;
        cursor->out = part;
        cursor->out_row = POET_TILE;
        cursor->tiles = 1;
        multiply_panels(cursor, kernel, &alone);
        for (int32_t i = 0; i < rows; i++) {
            for (int32_t j = first; j < end; j++) {
                out[i * gemm->out_row + j * gemm->out_column] = part[i * POET_TILE + j - first];
            }
        }
    }
}

/* So few that each is computed by itself. Not inlined, nor is multiply_part, because tiles would pay for their
 * variables. */
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

/* At most four rows, which the cursor has, and the columns from `first_column` on: through a buffer. No result may be
 * added to twice: of columns that are computed with the last ones, because B cannot be read beyond them, none is kept.
 */
static void add_part(poet_cursor *cursor, const poet_gemm *gemm, int32_t rows, int32_t first_column, const float *b,
                     float *out)
{
    for (int32_t column = first_column; column < gemm->columns; column += POET_TILE) {
        float part[POET_TILE * POET_TILE] = {0};
        const int32_t past = column + POET_TILE - gemm->columns;
        const int32_t first = past > 0 && column >= past ? column - past : column;
        const int32_t end = first + POET_TILE < gemm->columns ? first + POET_TILE : gemm->columns;
        for (int32_t i = 0; i < rows; i++) {
            for (int32_t j = column; j < end; j++) {
                part[i * POET_TILE + j - first] = out[i * gemm->out_row + j * gemm->out_column];
            }
        }
        const float *b_at = b + first * gemm->b_column;
        if (rows <= FEW_ROWS) {
            for (int32_t i = 0; i < rows; i++) {
                multiply_1x4(gemm, cursor->a[i], b_at, gemm->b_column, part + i * POET_TILE);
            }
        } else {
            cursor->b = b_at;
            cursor->out = part;
            cursor->out_row = POET_TILE;
            cursor->tiles = 1;
            add_tiles(cursor, ANY_ADDING_KERNEL);
        }
        for (int32_t i = 0; i < rows; i++) {
            for (int32_t j = column; j < end; j++) {
                out[i * gemm->out_row + j * gemm->out_column] = part[i * POET_TILE + j - first];
            }
        }
    }
}

void poet_gemm_add(const poet_gemm *gemm, const float *a, const float *b, float *out)
{
    poet_cursor cursor;
    cursor_begin(&cursor, gemm, 0);
    const micro_kernel kernel = choose_adding_kernel(&cursor, gemm);
    const int32_t whole = gemm->out_column == 1 ? gemm->columns - gemm->columns % POET_TILE : 0;
    for (int32_t row = 0; row < gemm->rows; row += POET_TILE) {
        const int32_t rows = gemm->rows - row < POET_TILE ? gemm->rows - row : POET_TILE;
        const int32_t in_tiles = rows == POET_TILE ? whole : 0;
        cursor_set_rows(&cursor, gemm, a, NULL, row);
        for (int32_t panel = 0; panel < gemm->panels; panel++) {
            const float *b_at = b + panel * gemm->b_panel;
            float *out_at = out + row * gemm->out_row + panel * gemm->out_panel;
            if (in_tiles > 0) {
                cursor.b = b_at;
                cursor.out = out_at;
                cursor.out_row = gemm->out_row;
                cursor.tiles = in_tiles / POET_TILE;
                add_tiles(&cursor, kernel);
            }
            add_part(&cursor, gemm, rows, in_tiles, b_at, out_at);
        }
    }
}

/* One row and four columns. */
static void nt_add_1x4(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    const float *b0 = b[0];
    const float *b1 = b[1];
    const float *b2 = b[2];
    const float *b3 = b[3];
    float sums[POET_TILE] = {out[0], out[1], out[2], out[3]};
    for (int32_t k_row = 0; k_row < gemm->k_rows; k_row++) {
        for (int32_t tap = 0; tap < gemm->taps; tap++) {
            const int32_t at = tap * gemm->b_tap;
            multiply_add_1x4(sums, a[tap], b0[at], b1[at], b2[at], b3[at]);
        }
        a += gemm->taps;
        b0 += gemm->b_k_row;
        b1 += gemm->b_k_row;
        b2 += gemm->b_k_row;
        b3 += gemm->b_k_row;
    }
    for (int32_t j = 0; j < POET_TILE; j++) {
        out[j] = sums[j];
    }
}

static float nt_add_1x1(const poet_gemm_nt *gemm, const float *a, const float *b, float sum)
{
    for (int32_t k_row = 0; k_row < gemm->k_rows; k_row++) {
        for (int32_t tap = 0; tap < gemm->taps; tap++) {
            sum = multiply_add_1x1(sum, *a++, b[tap * gemm->b_tap]);
        }
        b += gemm->b_k_row;
    }
    return sum;
}

static void nt_add_row(const poet_gemm_nt *gemm, int32_t columns, const float *a, const float *const *b, float *out)
{
    int32_t j = nt_add_row_quickly(gemm, columns, a, b, out);
    for (; j + POET_TILE <= columns; j += POET_TILE) {
        nt_add_1x4(gemm, a, b + j, out + j);
    }
    for (; j < columns; j++) {
        out[j] = nt_add_1x1(gemm, a, b[j], out[j]);
    }
}

static void nt_add_rows(const poet_gemm_nt *gemm, int32_t columns, const float *a, const float *const *b, float *out)
{
    for (int32_t row = 0; row < gemm->rows; row++) {
        nt_add_row(gemm, columns, a + row * gemm->a_row, b, out + row * gemm->out_row);
    }
}

/* Fewer than four rows or columns: through a buffer, where what is missing repeats the last one. Not inlined, because
 * the common way would pay for its variables. */
__attribute__((noinline)) static void nt_add_part(const poet_nt_cursor *whole, const poet_gemm_nt *gemm, int32_t rows,
                                                  int32_t columns, const float *a, const float *const *b, float *out)
{
    float part[POET_TILE * POET_TILE] = {0};
    const float *b_repeated[POET_TILE];
    poet_nt_cursor cursor = *whole;
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t j = 0; j < columns; j++) {
            part[i * POET_TILE + j] = out[i * gemm->out_row + j];
        }
    }
    for (int32_t i = 0; i < POET_TILE; i++) {
        cursor.a[i] = a + (i < rows ? i : rows - 1) * gemm->a_row;
        b_repeated[i] = b[i < columns ? i : columns - 1];
    }
    cursor.b = b_repeated;
    cursor.out = part;
    cursor.out_row = POET_TILE;
    cursor.tiles = 1;
    cursor.columns = POET_TILE;
    nt_add_tiles(&cursor);
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t j = 0; j < columns; j++) {
            out[i * gemm->out_row + j] = part[i * POET_TILE + j];
        }
    }
}

/* At most four columns. */
static void nt_add_columns(poet_nt_cursor *cursor, const poet_gemm_nt *gemm, int32_t columns, const float *a,
                           const float *const *b, float *out)
{
    const int suits = suits_nt_tiles(gemm, columns);
    int32_t row = 0;
    if (columns <= FEW_COLUMNS && !suits) {
        nt_add_rows(gemm, columns, a, b, out);
        return;
    }
    if (suits) {
        cursor->b = b;
        cursor->columns = columns;
        cursor->out = out;
        nt_add_tiles(cursor);
        row = cursor->tiles * POET_TILE;
    }
    for (; row < gemm->rows; row += POET_TILE) {
        const int32_t rows = gemm->rows - row < POET_TILE ? gemm->rows - row : POET_TILE;
        nt_add_part(cursor, gemm, rows, columns, a + row * gemm->a_row, b, out + row * gemm->out_row);
    }
}

void poet_gemm_nt_add(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    if (nt_add_3x3(gemm, a, b, out)) {
        return;
    }
    if (gemm->rows <= FEW_ROWS) {
        nt_add_rows(gemm, gemm->columns, a, b, out);
        return;
    }
    poet_nt_cursor cursor;
    for (int32_t i = 0; i < POET_TILE; i++) {
        cursor.a[i] = a + i * gemm->a_row;
    }
    cursor.out_row = gemm->out_row;
    cursor.tiles = gemm->rows / POET_TILE;
    cursor.k_rows = gemm->k_rows;
    cursor.taps = gemm->taps;
    cursor.b_k_row = gemm->b_k_row;
    cursor.b_tap = gemm->b_tap;
    cursor.b_gap_bytes = (gemm->b_k_row - gemm->taps * gemm->b_tap) * (int32_t)sizeof(float);
    cursor.a_gap_bytes = (POET_TILE * gemm->a_row - gemm->k_rows * gemm->taps) * (int32_t)sizeof(float);
    for (int32_t column = 0; column < gemm->columns; column += POET_TILE) {
        const int32_t left = gemm->columns - column;
        nt_add_columns(&cursor, gemm, left < POET_TILE ? left : POET_TILE, a, b + column, out + column);
    }
}
