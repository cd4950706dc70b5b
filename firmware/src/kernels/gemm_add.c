/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from gemm.c, so that a program whose sums all begin with nothing links none of it. */
#include "registers_m4f.h"

#include "gemm.h"

#include <stddef.h>

#include "cursor_inl.h"

#if POET_FPU_ASSEMBLY && POET_EVERY_REGISTER
#include "add_tiles_m4f_inl.h"
#else
#include "add_tiles_c_inl.h"
#endif

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
                multiply_1x4(gemm, cursor->a[i], b_at, part + i * POET_TILE);
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

void poet_gemm_add(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out)
{
    (void)start;
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
