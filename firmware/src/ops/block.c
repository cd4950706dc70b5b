/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

#include <stddef.h>

#include "block_step.h"
#include "block_walk.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)
#include "block_m4f.h"
#else
#include "block_steps.h"
#endif

/* Channels of one line each are the lines of a single channel. */
static void walk_begin(poet_walk *walk, const poet_block *block, int started)
{
    const int32_t one_line = block->lines == 1;
    walk->start[0] = walk->start[1] = walk->start[2] = walk->start[3] = SUM_OF_NOTHING;
    walk->started = started;
    walk->left = 0;
    walk->channels = one_line ? 1 : block->channels;
    walk->lines = one_line ? block->channels : block->lines;
    walk->taps = block->taps;
    walk->a_channel = one_line ? 0 : block->a_channel - block->lines * block->a_line;
    walk->a_line = one_line ? block->a_channel : block->a_line;
    walk->a_tap = block->a_tap;
    walk->b_channel = one_line ? 0 : block->b_channel - block->lines * block->b_line;
    walk->b_line = one_line ? block->b_channel : block->b_line;
    walk->b_tap = block->b_tap;
    walk->b_column = block->b_column;
}

/* Rows beyond the last one repeat it: their results are dropped. */
static void walk_set_rows(poet_walk *walk, const poet_block *block, const float *a, const float *start, int32_t first)
{
    const int32_t last = block->rows - 1 - first;
    const int32_t a_row = block->a_row;
    const float *row = a + first * a_row;
    walk->a[0] = row;
    walk->a[1] = row += last >= 1 ? a_row : 0;
    walk->a[2] = row += last >= 2 ? a_row : 0;
    walk->a[3] = row + (last >= 3 ? a_row : 0);
    if (start) {
        for (int32_t i = 0; i < POET_BLOCK; i++) {
            walk->start[i] = start[i < last ? first + i : first + last];
        }
    }
}

/* The walk's blocks side by side, in each strip. Not inlined, because the target's own way is long. */
__attribute__((noinline)) static void multiply_strips(poet_walk *walk, walk_kind kind, const poet_block *block)
{
    for (int32_t strip = block->strips;;) {
        multiply_blocks(walk, kind);
        if (--strip == 0) {
            return;
        }
        walk->b += block->b_strip;
        walk->out += block->out_strip;
    }
}

/* The walk's rows, which lie whole in the result. Where the target has no way to compute the last columns alone, some
 * before them are computed with them once more: the outcome is the same. */
static void multiply_rows(poet_walk *walk, walk_kind kind, const poet_block *block, const float *b, float *out)
{
    const int32_t left = block->columns % POET_BLOCK;
    walk->b = b;
    walk->out = out;
    walk->out_row = block->out_row;
    walk->blocks = block->columns / POET_BLOCK;
    walk->left = left <= 2 && suits_pair(kind) ? left : 0;
    multiply_strips(walk, kind, block);
    if (left > walk->left) {
        const int32_t last = block->columns - POET_BLOCK;
        walk->b = b + last * block->b_column;
        walk->out = out + last * block->out_column;
        walk->blocks = 1;
        multiply_strips(walk, kind, block);
    }
}

/* So few that a 4 x 4 block would mostly compute what is dropped. */
#define FEW_ROWS 2
#define FEW_COLUMNS 2

/* One row and four columns; `sums` come in as they begin. */
static inline void multiply_1x4(const poet_block *block, const float *a, const float *b, int32_t b_column, float *sums)
{
    float s[POET_BLOCK] = {sums[0], sums[1], sums[2], sums[3]};
    for (int32_t channel = 0; channel < block->channels; channel++) {
        for (int32_t line = 0; line < block->lines; line++) {
            const float *a_at = a + channel * block->a_channel + line * block->a_line;
            const float *b_at = b + channel * block->b_channel + line * block->b_line;
            for (int32_t tap = 0; tap < block->taps; tap++) {
                multiply_add_1x4(s, *a_at, b_at[0], b_at[b_column], b_at[2 * b_column], b_at[3 * b_column]);
                a_at += block->a_tap;
                b_at += block->b_tap;
            }
        }
    }
    for (int32_t j = 0; j < POET_BLOCK; j++) {
        sums[j] = s[j];
    }
}

/* A row of a plain matrix product: one tap a line, columns of B and of the result contiguous. */
static int is_plain(const poet_block *block)
{
    return block->channels == 1 && block->taps == 1 && block->b_column == 1 && block->out_column == 1 &&
           block->columns >= POET_BLOCK;
}

static void multiply_plain_row(const poet_block *block, const float *a, float start, const float *b, float *out)
{
    const int32_t last = block->columns - POET_BLOCK;
    for (int32_t column = 0; column < block->columns; column += POET_BLOCK) {
        const int32_t first = column < last ? column : last;
        const float *a_at = a;
        const float *b_at = b + first;
        float sums[POET_BLOCK] = {start, start, start, start};
        for (int32_t line = block->lines; line > 0; line--) {
            multiply_add_1x4(sums, *a_at, b_at[0], b_at[1], b_at[2], b_at[3]);
            a_at += block->a_line;
            b_at += block->b_line;
        }
        for (int32_t j = 0; j < POET_BLOCK; j++) {
            out[first + j] = sums[j];
        }
    }
}

static void multiply_row(const poet_block *block, const float *a, float start, const float *b, float *out)
{
    for (int32_t column = 0; column < block->columns; column += POET_BLOCK) {
        const int32_t past = column + POET_BLOCK - block->columns;
        const int32_t first = past > 0 && column >= past ? column - past : column;
        float sums[POET_BLOCK] = {start, start, start, start};
        if (block->b_column == 1) {
            multiply_1x4(block, a, b + first, 1, sums); /* lets the compiler put distances into the instructions */
        } else {
            multiply_1x4(block, a, b + first * block->b_column, block->b_column, sums);
        }
        for (int32_t j = first; j < block->columns && j < first + POET_BLOCK; j++) {
            out[j * block->out_column] = sums[j - first];
        }
    }
}

/* Fewer than four rows or columns, or columns apart: block by block through a buffer. */
__attribute__((noinline)) static void multiply_part(poet_walk *walk, walk_kind kind, const poet_block *block,
                                                    const float *b, float *out)
{
    float part[POET_BLOCK * POET_BLOCK];
    const poet_block alone = {.strips = 1};
    const int32_t rows = block->rows < POET_BLOCK ? block->rows : POET_BLOCK;
    for (int32_t column = 0; column < block->columns; column += POET_BLOCK) {
        const int32_t past = column + POET_BLOCK - block->columns;
        const int32_t first = past > 0 && column >= past ? column - past : column;
        const int32_t end = first + POET_BLOCK < block->columns ? first + POET_BLOCK : block->columns;
        walk->b = b + first * block->b_column;
        walk->out = part;
        walk->out_row = POET_BLOCK;
        walk->blocks = 1;
        multiply_strips(walk, kind, &alone);
        for (int32_t i = 0; i < rows; i++) {
            for (int32_t j = first; j < end; j++) {
                out[i * block->out_row + j * block->out_column] = part[i * POET_BLOCK + j - first];
            }
        }
    }
}

/* So few that each is computed by itself. Not inlined, nor is multiply_part, because blocks would pay for their
 * variables. */
__attribute__((noinline)) static void multiply_few_rows(const poet_block *block, const float *a, const float *start,
                                                        const float *b, float *out)
{
    const int plain = is_plain(block);
    for (int32_t row = 0; row < block->rows; row++) {
        const float *a_row = a + row * block->a_row;
        const float first = start ? start[row] : SUM_OF_NOTHING;
        float *out_row = out + row * block->out_row;
        if (multiply_window(block, a_row, first, b, out_row)) {
            continue;
        }
        for (int32_t strip = 0; strip < block->strips; strip++) {
            const float *b_at = b + strip * block->b_strip;
            float *out_at = out_row + strip * block->out_strip;
            if (plain) {
                multiply_plain_row(block, a_row, first, b_at, out_at);
            } else {
                multiply_row(block, a_row, first, b_at, out_at);
            }
        }
    }
}

void poet_block_multiply(const poet_block *block, const float *a, const float *start, const float *b, float *out)
{
    if (multiply_vectors(block, a, start, b, out)) {
        return;
    }
    if (block->rows <= FEW_ROWS) {
        multiply_few_rows(block, a, start, b, out);
        return;
    }
    poet_walk walk;
    walk_begin(&walk, block, start != NULL);
    const walk_kind kind = plan_walk(&walk, block);
    const int in_place = stores_in_place(kind, block);
    for (int32_t row = 0; row < block->rows; row += walk.rows) {
        const int32_t past = row + walk.rows - block->rows;
        const int32_t first = past > 0 && row >= past ? row - past : row;
        walk_set_rows(&walk, block, a, start, first);
        if (in_place) {
            multiply_rows(&walk, kind, block, b, out + first * block->out_row);
        } else {
            for (int32_t strip = 0; strip < block->strips; strip++) {
                multiply_part(&walk, kind, block, b + strip * block->b_strip,
                              out + first * block->out_row + strip * block->out_strip);
            }
        }
    }
}

/* One row and four columns. */
static void add_dot_1x4(const poet_dot *dot, const float *a, const float *const *b, float *out)
{
    const float *b0 = b[0];
    const float *b1 = b[1];
    const float *b2 = b[2];
    const float *b3 = b[3];
    float sums[POET_BLOCK] = {out[0], out[1], out[2], out[3]};
    for (int32_t line = 0; line < dot->lines; line++) {
        for (int32_t tap = 0; tap < dot->taps; tap++) {
            const int32_t at = tap * dot->b_tap;
            multiply_add_1x4(sums, a[tap], b0[at], b1[at], b2[at], b3[at]);
        }
        a += dot->taps;
        b0 += dot->b_line;
        b1 += dot->b_line;
        b2 += dot->b_line;
        b3 += dot->b_line;
    }
    for (int32_t j = 0; j < POET_BLOCK; j++) {
        out[j] = sums[j];
    }
}

static float add_dot_1x1(const poet_dot *dot, const float *a, const float *b, float sum)
{
    for (int32_t line = 0; line < dot->lines; line++) {
        for (int32_t tap = 0; tap < dot->taps; tap++) {
            sum = multiply_add_1x1(sum, *a++, b[tap * dot->b_tap]);
        }
        b += dot->b_line;
    }
    return sum;
}

static void add_dot_row(const poet_dot *dot, int32_t columns, const float *a, const float *const *b, float *out)
{
    int32_t j = add_dot_row_quickly(dot, columns, a, b, out);
    for (; j + POET_BLOCK <= columns; j += POET_BLOCK) {
        add_dot_1x4(dot, a, b + j, out + j);
    }
    for (; j < columns; j++) {
        out[j] = add_dot_1x1(dot, a, b[j], out[j]);
    }
}

static void add_dot_rows(const poet_dot *dot, int32_t columns, const float *a, const float *const *b, float *out)
{
    for (int32_t row = 0; row < dot->rows; row++) {
        add_dot_row(dot, columns, a + row * dot->a_row, b, out + row * dot->out_row);
    }
}

/* Fewer than four rows or columns: through a buffer, where what is missing repeats the last one. Not inlined, because
 * the common way would pay for its variables. */
__attribute__((noinline)) static void add_dot_part(const poet_dot_walk *whole, const poet_dot *dot, int32_t rows,
                                                   int32_t columns, const float *a, const float *const *b, float *out)
{
    float part[POET_BLOCK * POET_BLOCK] = {0};
    const float *b_repeated[POET_BLOCK];
    poet_dot_walk walk = *whole;
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t j = 0; j < columns; j++) {
            part[i * POET_BLOCK + j] = out[i * dot->out_row + j];
        }
    }
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        walk.a[i] = a + (i < rows ? i : rows - 1) * dot->a_row;
        b_repeated[i] = b[i < columns ? i : columns - 1];
    }
    walk.b = b_repeated;
    walk.out = part;
    walk.out_row = POET_BLOCK;
    walk.blocks = 1;
    walk.columns = POET_BLOCK;
    add_dot_blocks(&walk);
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t j = 0; j < columns; j++) {
            out[i * dot->out_row + j] = part[i * POET_BLOCK + j];
        }
    }
}

/* At most four columns. */
static void add_dot_columns(poet_dot_walk *walk, const poet_dot *dot, int32_t columns, const float *a,
                            const float *const *b, float *out)
{
    const int suits = suits_dot_blocks(dot, columns);
    int32_t row = 0;
    if (columns <= FEW_COLUMNS && !suits) {
        add_dot_rows(dot, columns, a, b, out);
        return;
    }
    if (suits) {
        walk->b = b;
        walk->columns = columns;
        walk->out = out;
        add_dot_blocks(walk);
        row = walk->blocks * POET_BLOCK;
    }
    for (; row < dot->rows; row += POET_BLOCK) {
        const int32_t rows = dot->rows - row < POET_BLOCK ? dot->rows - row : POET_BLOCK;
        add_dot_part(walk, dot, rows, columns, a + row * dot->a_row, b, out + row * dot->out_row);
    }
}

void poet_dot_add(const poet_dot *dot, const float *a, const float *const *b, float *out)
{
    if (add_dot_windows(dot, a, b, out)) {
        return;
    }
    if (dot->rows <= FEW_ROWS) {
        add_dot_rows(dot, dot->columns, a, b, out);
        return;
    }
    poet_dot_walk walk;
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        walk.a[i] = a + i * dot->a_row;
    }
    walk.out_row = dot->out_row;
    walk.blocks = dot->rows / POET_BLOCK;
    walk.lines = dot->lines;
    walk.taps = dot->taps;
    walk.b_line = dot->b_line;
    walk.b_tap = dot->b_tap;
    walk.b_gap_bytes = (dot->b_line - dot->taps * dot->b_tap) * (int32_t)sizeof(float);
    walk.a_gap_bytes = (POET_BLOCK * dot->a_row - dot->lines * dot->taps) * (int32_t)sizeof(float);
    for (int32_t column = 0; column < dot->columns; column += POET_BLOCK) {
        const int32_t left = dot->columns - column;
        add_dot_columns(&walk, dot, left < POET_BLOCK ? left : POET_BLOCK, a, b + column, out + column);
    }
}
