/* The 4 x 4 block in plain C. */
#ifndef POET_OPS_BLOCK_PLAIN_H
#define POET_OPS_BLOCK_PLAIN_H

#include "block_walk.h"

typedef int walk_kind;

static inline walk_kind kind_of(const poet_block *block)
{
    (void)block;
    return 0;
}

static inline void multiply_4x4(const poet_walk *walk)
{
    float sums[POET_BLOCK][POET_BLOCK];
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        for (int32_t j = 0; j < POET_BLOCK; j++) {
            sums[i][j] = walk->start[i];
        }
    }
    ptrdiff_t a = 0;
    const float *b = walk->b;
    for (int32_t channel = 0; channel < walk->channels; channel++) {
        for (int32_t line = 0; line < walk->lines; line++) {
            for (int32_t tap = 0; tap < walk->taps; tap++) {
                for (int32_t i = 0; i < POET_BLOCK; i++) {
                    const float factor = walk->a[i][a + tap * walk->a_tap];
                    for (int32_t j = 0; j < POET_BLOCK; j++) {
                        sums[i][j] += factor * b[tap * walk->b_tap + j * walk->b_column];
                    }
                }
            }
            a += walk->a_line;
            b += walk->b_line;
        }
        a += walk->a_channel;
        b += walk->b_channel;
    }
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        for (int32_t j = 0; j < POET_BLOCK; j++) {
            walk->out[i * walk->out_row + j] = sums[i][j];
        }
    }
}

static inline void multiply_blocks(poet_walk *walk, walk_kind kind)
{
    (void)kind;
    for (; walk->blocks > 0; walk->blocks--) {
        multiply_4x4(walk);
        walk->b += POET_BLOCK * walk->b_column;
        walk->out += POET_BLOCK;
    }
}

static inline void add_dot_4x4(const poet_dot_walk *walk)
{
    for (int32_t i = 0; i < POET_BLOCK; i++) {
        for (int32_t j = 0; j < POET_BLOCK; j++) {
            const float *a = walk->a[i];
            const float *b = walk->b[j];
            float sum = walk->out[i * walk->out_row + j];
            for (int32_t line = 0; line < walk->lines; line++) {
                for (int32_t tap = 0; tap < walk->taps; tap++) {
                    sum += *a++ * b[tap * walk->b_tap];
                }
                b += walk->b_line;
            }
            walk->out[i * walk->out_row + j] = sum;
        }
    }
}

static inline void add_dot_blocks(poet_dot_walk *walk)
{
    for (; walk->blocks > 0; walk->blocks--) {
        add_dot_4x4(walk);
        for (int32_t i = 0; i < POET_BLOCK; i++) {
            walk->a[i] += walk->a_block_bytes / (int32_t)sizeof(float);
        }
        walk->out += POET_BLOCK * walk->out_row;
    }
}

#endif
