/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include "gemm.h"

#include <stddef.h>

#include "multiply_add.h"

#if POET_FPU_ASSEMBLY
#include "micro_kernel_nt_m4f_inl.h"
#else
#include "micro_kernel_nt_c_inl.h"
#endif

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
            poet_multiply_add_1x4(sums, a[tap], b0[at], b1[at], b2[at], b3[at]);
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
            sum = poet_multiply_add_1x1(sum, *a++, b[tap * gemm->b_tap]);
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

static void nt_add_rows(const poet_gemm_nt *gemm, int32_t first, int32_t columns, const float *a, const float *const *b,
                        float *out)
{
    for (int32_t row = first; row < gemm->rows; row++) {
        nt_add_row(gemm, columns, a + row * gemm->a_row, b, out + row * gemm->out_row);
    }
}

/* Fewer than four rows or columns: through a buffer, where what is missing repeats the last one. Not inlined, because
 * the common way would pay for its variables. Column by column, because the compiler would copy rows by calls. */
__attribute__((noinline)) static void nt_add_part(poet_nt_kernel *fours, poet_nt_cursor *cursor,
                                                  const poet_gemm_nt *gemm, int32_t rows, int32_t columns,
                                                  const float *a, const float *const *b, float *out)
{
    float part[POET_TILE * POET_TILE] = {0};
    const float *b_repeated[POET_TILE];
    for (int32_t j = 0; j < columns; j++) {
        for (int32_t i = 0; i < rows; i++) {
            part[i * POET_TILE + j] = out[i * gemm->out_row + j];
        }
    }
    for (int32_t i = 0; i < POET_TILE; i++) {
        cursor->a[i] = a + (i < rows ? i : rows - 1) * gemm->a_row;
        b_repeated[i] = b[i < columns ? i : columns - 1];
    }
    cursor->b = b_repeated;
    cursor->out = part;
    cursor->out_row = POET_TILE;
    cursor->tiles = 1;
    fours(cursor);
    for (int32_t j = 0; j < columns; j++) {
        for (int32_t i = 0; i < rows; i++) {
            out[i * gemm->out_row + j] = part[i * POET_TILE + j];
        }
    }
}

/* At most four columns. */
static void nt_add_columns(poet_nt_cursor *cursor, const poet_gemm_nt *gemm, int32_t columns, const float *a,
                           const float *const *b, float *out)
{
    poet_nt_kernel *const fours = nt_fours_of(gemm);
    poet_nt_kernel *const tiles = columns == POET_TILE ? fours : columns == 2 ? nt_pairs_of(gemm) : NULL;
    int32_t row = 0;
    if (tiles != NULL && gemm->rows >= POET_TILE) {
        for (int32_t i = 0; i < POET_TILE; i++) {
            cursor->a[i] = a + i * gemm->a_row;
        }
        cursor->b = b;
        cursor->out = out;
        cursor->out_row = gemm->out_row;
        cursor->tiles = gemm->rows / POET_TILE;
        tiles(cursor);
        row = gemm->rows - gemm->rows % POET_TILE;
    }
    if (fours == NULL || (tiles == NULL && columns <= FEW_COLUMNS)) {
        nt_add_rows(gemm, row, columns, a, b, out);
        return;
    }
    for (; row < gemm->rows; row += POET_TILE) {
        const int32_t rows = gemm->rows - row < POET_TILE ? gemm->rows - row : POET_TILE;
        nt_add_part(fours, cursor, gemm, rows, columns, a + row * gemm->a_row, b, out + row * gemm->out_row);
    }
}

void poet_gemm_nt_add(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    if (nt_add_3x3(gemm, a, b, out)) {
        return;
    }
    if (gemm->rows <= FEW_ROWS) {
        nt_add_rows(gemm, 0, gemm->columns, a, b, out);
        return;
    }
    poet_nt_cursor cursor;
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
