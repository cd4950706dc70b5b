#include "block.h"

#include <stddef.h>

#include "block_walk.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)
#include "block_m4f.h"
#else
#include "block_plain.h"
#endif

static poet_walk walk_of(const poet_block *block)
{
    return (poet_walk){
        .channels = block->channels,
        .lines = block->lines,
        .taps = block->taps,
        .a_channel = block->a_channel - block->lines * block->a_line,
        .a_line = block->a_line,
        .a_tap = block->a_tap,
        .b_channel = block->b_channel - block->lines * block->b_line,
        .b_line = block->b_line,
        .b_tap = block->b_tap,
        .b_column = block->b_column,
        .all_lines = block->lines,
    };
}

/* Where the block that holds row or column `place` begins: the last one moves back to be whole, which computes some
 * results twice, with the same outcome. */
static int32_t block_begin(int32_t place, int32_t count)
{
    return place + POET_BLOCK > count && count > POET_BLOCK ? count - POET_BLOCK : place;
}

static int32_t at_most_4(int32_t count)
{
    return count < POET_BLOCK ? count : POET_BLOCK;
}

/* Rows beyond the last one repeat it: their results are dropped. */
static void walk_set_rows(poet_walk *walk, const poet_block *block, const float *a, const float *start, int32_t first)
{
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        const int32_t row = first + i < block->rows ? first + i : block->rows - 1;
        walk->a[i] = a + row * block->a_row;
        walk->start[i] = start ? start[row] : 0.0f;
    }
}

static void copy_part(const float *part, int32_t rows, int32_t columns, const poet_block *block, float *out)
{
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t j = 0; j < columns; j++) {
            out[i * block->out_row + j * block->out_column] = part[i * POET_BLOCK + j];
        }
    }
}

void poet_block_multiply(const poet_block *block, const float *a, const float *start, const float *b, float *out)
{
    const walk_kind kind = kind_of(block);
    const int32_t high = at_most_4(block->rows);
    const int32_t wide = at_most_4(block->columns);
    const int32_t direct = high == POET_BLOCK && wide == POET_BLOCK && block->out_column == 1;
    float part[POET_BLOCK * POET_BLOCK];
    poet_walk walk = walk_of(block);
    walk.out = part;
    walk.out_row = direct ? block->out_row : POET_BLOCK;
    for (int32_t row = 0; row < block->rows; row += POET_BLOCK) {
        const int32_t first_row = block_begin(row, block->rows);
        float *out_row = out + first_row * block->out_row;
        walk_set_rows(&walk, block, a, start, first_row);
        for (int32_t column = 0; column < block->columns; column += POET_BLOCK) {
            const int32_t first = block_begin(column, block->columns);
            walk.b = b + first * block->b_column;
            if (direct) {
                walk.out = out_row + first;
            }
            multiply_4x4(&walk, kind);
            if (!direct) {
                copy_part(part, high, wide, block, out_row + first * block->out_column);
            }
        }
    }
}
