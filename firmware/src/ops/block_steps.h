/* SPDX-License-Identifier: Apache-2.0 */
/* 4 x 4 blocks in C, step by step: each step multiplies one element of each row with one of each column. */
#ifndef POET_OPS_BLOCK_STEPS_H
#define POET_OPS_BLOCK_STEPS_H

#include <stddef.h>

#include "block_step.h"
#include "block_walk.h"

typedef int walk_kind; /* all walks are alike here */

static inline walk_kind plan_walk(poet_walk *walk, const poet_block *block)
{
    (void)block;
    walk->rows = POET_BLOCK;
    return 0;
}

static void multiply_4x4(const poet_walk *walk)
{
    float sums[POET_BLOCK * POET_BLOCK];
    const float *columns[POET_BLOCK];
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        columns[i] = walk->b + i * walk->b_column;
        for (int32_t j = 0; j < POET_BLOCK; j++) {
            sums[i * POET_BLOCK + j] = walk->start[i];
        }
    }
    ptrdiff_t a = 0;
    ptrdiff_t b = 0;
    for (int32_t channel = 0; channel < walk->channels; channel++) {
        for (int32_t line = 0; line < walk->lines; line++) {
            for (int32_t tap = 0; tap < walk->taps; tap++) {
                multiply_add_4x4(sums, walk->a, a + tap * walk->a_tap, columns, b + tap * walk->b_tap);
            }
            a += walk->a_line;
            b += walk->b_line;
        }
        a += walk->a_channel;
        b += walk->b_channel;
    }
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        for (int32_t j = 0; j < POET_BLOCK; j++) {
            walk->out[i * walk->out_row + j] = sums[i * POET_BLOCK + j];
        }
    }
}

static void multiply_blocks(const poet_walk *whole, walk_kind kind)
{
    (void)kind;
    poet_walk walk = *whole;
    for (; walk.blocks > 0; walk.blocks--) {
        multiply_4x4(&walk);
        walk.b += POET_BLOCK * walk.b_column;
        walk.out += POET_BLOCK;
    }
}

static inline int stores_in_place(walk_kind kind, const poet_block *block)
{
    (void)kind;
    return block->rows >= POET_BLOCK && block->columns >= POET_BLOCK && block->out_column == 1;
}

static inline int suits_pair(walk_kind kind)
{
    (void)kind;
    return 0;
}

static inline int multiply_window(const poet_block *block, const float *a, float start, const float *b, float *out)
{
    (void)block;
    (void)a;
    (void)start;
    (void)b;
    (void)out;
    return 0;
}

static inline int multiply_vectors(const poet_block *block, const float *a, const float *start, const float *b,
                                   float *out)
{
    (void)block;
    (void)a;
    (void)start;
    (void)b;
    (void)out;
    return 0;
}

static inline int add_dot_windows(const poet_dot *dot, const float *a, const float *const *b, float *out)
{
    (void)dot;
    (void)a;
    (void)b;
    (void)out;
    return 0;
}

static inline int suits_dot_blocks(const poet_dot *dot, int32_t columns)
{
    (void)dot;
    return columns == POET_BLOCK;
}

static inline int32_t add_dot_row_quickly(const poet_dot *dot, int32_t columns, const float *a, const float *const *b,
                                          float *out)
{
    (void)dot;
    (void)columns;
    (void)a;
    (void)b;
    (void)out;
    return 0;
}

static void add_dot_4x4(const poet_dot_walk *walk, ptrdiff_t a, float *out)
{
    float sums[POET_BLOCK * POET_BLOCK];
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        for (int32_t j = 0; j < POET_BLOCK; j++) {
            sums[i * POET_BLOCK + j] = out[i * walk->out_row + j];
        }
    }
    for (int32_t line = 0; line < walk->lines; line++) {
        for (int32_t tap = 0; tap < walk->taps; tap++) {
            multiply_add_4x4(sums, walk->a, a++, walk->b, line * walk->b_line + tap * walk->b_tap);
        }
    }
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        for (int32_t j = 0; j < POET_BLOCK; j++) {
            out[i * walk->out_row + j] = sums[i * POET_BLOCK + j];
        }
    }
}

static void add_dot_blocks(const poet_dot_walk *walk)
{
    const int32_t a_block = walk->a_gap_bytes / (int32_t)sizeof(float) + walk->lines * walk->taps;
    for (int32_t block = 0; block < walk->blocks; block++) {
        add_dot_4x4(walk, block * a_block, walk->out + block * POET_BLOCK * walk->out_row);
    }
}

#endif
