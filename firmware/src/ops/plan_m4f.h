/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the Cortex-M4F's ways suits a block, and what that way needs to know beforehand. */
#ifndef POET_OPS_PLAN_M4F_H
#define POET_OPS_PLAN_M4F_H

#include "block_walk.h"

typedef enum walk_kind {
    WALK_GENERAL,
    WALK_SINGLES,        /* one tap a line, A contiguous, columns of B contiguous */
    WALK_SINGLES_APART,  /* the same, but every second element of B */
    WALK_TRIPLES,        /* three taps a line, lines by threes, A contiguous: a 3x3 kernel */
    WALK_TRIPLES_APART,  /* the same, but every second element of B */
    WALK_APART,          /* the same as WALK_SINGLES, but A at any distances */
    WALK_PANELS,         /* one tap a line, rows of A and columns of B contiguous: a transposed matrix */
    WALK_PANELS_FIVE,    /* the same, five rows at a time */
    WALK_PANELS_SPREAD,  /* the same as WALK_PANELS, with a gap behind every result */
    WALK_GRADIENT_3X3,   /* input gradient of a 3x3 kernel: rows of A are 9 apart, taps of B descend */
    WALK_GRADIENT_THREE, /* the same, three rows at a time */
    WALK_GRADIENT_2X2,   /* the phases of a stride of 2, with a gap behind every result */
    WALK_GRADIENT_2X1,
    WALK_GRADIENT_1X2,
    WALK_GRADIENT_1X1
} walk_kind;

#define FIRST_PARTICULAR WALK_PANELS_FIVE /* from here on a kind suits whole blocks only */
#define FIRST_GRADIENT WALK_GRADIENT_3X3

#define KERNEL 9 /* weights of a 3x3 kernel */

static inline walk_kind gradient_kind_of(const poet_block *block)
{
    if (block->a_row != KERNEL || block->b_column != 1 || block->b_tap != -1) {
        return WALK_GENERAL;
    }
    if (block->taps == 3 && block->lines == 3 && block->a_tap == 1 && block->a_line == 3 && block->out_column == 1) {
        if (block->rows % 3 == 0 && block->rows % POET_BLOCK != 0) {
            return WALK_GRADIENT_THREE;
        }
        return block->rows >= POET_BLOCK ? WALK_GRADIENT_3X3 : WALK_GENERAL;
    }
    if (block->taps <= 2 && block->lines <= 2 && block->a_tap == 2 && block->a_line == 6 && block->out_column == 2) {
        static const walk_kind kinds[] = {WALK_GRADIENT_1X1, WALK_GRADIENT_1X2, WALK_GRADIENT_2X1, WALK_GRADIENT_2X2};
        return block->rows >= POET_BLOCK ? kinds[2 * block->lines + block->taps - 3] : WALK_GENERAL;
    }
    return WALK_GENERAL;
}

static inline walk_kind panels_of(const poet_walk *walk, const poet_block *block)
{
    if (block->columns < POET_BLOCK || block->out_column > 2) {
        return WALK_PANELS;
    }
    if (block->out_column == 2) {
        return WALK_PANELS_SPREAD;
    }
    return block->rows % 5 == 0 && block->rows % POET_BLOCK != 0 && !walk->started ? WALK_PANELS_FIVE : WALK_PANELS;
}

/* Whether results are stored where they belong, and not through a buffer. */
static inline int stores_in_place(walk_kind kind, const poet_block *block)
{
    return kind >= FIRST_PARTICULAR ||
           (block->rows >= POET_BLOCK && block->columns >= POET_BLOCK && block->out_column == 1);
}

static inline walk_kind kind_of(const poet_walk *walk, const poet_block *block)
{
    const int singles = walk->taps == 1 && walk->channels == 1;
    const walk_kind gradient = block->columns >= POET_BLOCK ? gradient_kind_of(block) : WALK_GENERAL;
    if (gradient != WALK_GENERAL) {
        return gradient;
    }
    if (singles && walk->a_line == 1 && (walk->b_column == 1 || walk->b_column == 2)) {
        return walk->b_column == 1 ? WALK_SINGLES : WALK_SINGLES_APART;
    }
    if (singles && walk->b_column == 1) {
        return block->rows >= POET_BLOCK && block->a_row == 1 ? panels_of(walk, block) : WALK_APART;
    }
    const int triples =
        walk->channels == 1 && walk->taps == 3 && walk->lines % 3 == 0 && walk->a_tap == 1 && walk->a_line == 3;
    if (triples && walk->b_tap == 1 && (walk->b_column == 1 || walk->b_column == 2)) {
        return walk->b_column == 1 ? WALK_TRIPLES : WALK_TRIPLES_APART;
    }
    return WALK_GENERAL;
}

#define ENTER_BEHIND 8
#define ENTER_WITH_START 9

/* How WALK_LINES enters its loop. */
static inline void plan_loop(poet_walk *walk, walk_kind kind)
{
    const int is_contiguous = kind == WALK_SINGLES || kind == WALK_SINGLES_APART;
    const int32_t lines = walk->lines - 1; /* the first one is multiplied outside */
    walk->passes = (lines + 7) / 8;
    walk->resume = lines == 0 ? ENTER_BEHIND : 8 * walk->passes - lines;
    walk->entry = walk->started ? ENTER_WITH_START : walk->resume;
    walk->a_step_bytes = (is_contiguous ? 1 - walk->resume : walk->a_line) * (int32_t)sizeof(float);
}

/* From where a block leaves B to the next block. */
static inline void plan_blocks(poet_walk *walk, walk_kind kind, const poet_block *block)
{
    const int has_channels = kind == WALK_GENERAL || kind >= FIRST_GRADIENT;
    const int32_t lines = walk->lines * walk->b_line;
    const int32_t passed = has_channels ? walk->channels * (lines + walk->b_channel) : lines;
    walk->b_block_bytes = (POET_BLOCK * block->b_column - passed) * (int32_t)sizeof(float);
}

/* Picks the way to walk, and fills in what it needs. */
static inline walk_kind plan_walk(poet_walk *walk, const poet_block *block)
{
    const walk_kind kind = kind_of(walk, block);
    walk->rows = kind == WALK_PANELS_FIVE ? 5 : kind == WALK_GRADIENT_THREE ? 3 : POET_BLOCK;
    plan_loop(walk, kind);
    plan_blocks(walk, kind, block);
    return kind;
}

#endif
