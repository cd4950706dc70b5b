/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the Cortex-M4F's micro-kernels suits a product, and what it needs to know beforehand. */
#ifndef POET_KERNELS_MICRO_KERNEL_CHOICE_M4F_INL_H
#define POET_KERNELS_MICRO_KERNEL_CHOICE_M4F_INL_H

#include <stddef.h>

#include "micro_kernel.h"
#include "poet/operator.h"

typedef enum micro_kernel {
    MICRO_GENERAL,
    MICRO_SINGLES,           /* one tap in each k_row, A contiguous, columns of B contiguous */
    MICRO_SINGLES_STRIDE_2,  /* the same, but every second element of B */
    MICRO_TRIPLES,           /* three taps in each k_row, k_rows by threes, A contiguous: a 3x3 kernel */
    MICRO_TRIPLES_STRIDE_2,  /* the same, but every second element of B */
    MICRO_STRIDED,           /* the same as MICRO_SINGLES, but A at any distances */
    MICRO_TRANSPOSED,        /* one tap in each k_row, rows of A and columns of B contiguous: a transposed matrix */
    MICRO_TRANSPOSED_FIVE,   /* the same, five rows at a time */
    MICRO_TRANSPOSED_SPREAD, /* the same as MICRO_TRANSPOSED, with a gap after every result */
    MICRO_GRADIENT_3X3,      /* input gradient of a 3x3 kernel: rows of A are 9 apart, taps of B descend */
    MICRO_GRADIENT_THREE,    /* the same, three rows at a time */
    MICRO_GRADIENT_2X2,      /* the phases of a stride of 2, with a gap after every result */
    MICRO_GRADIENT_2X1,
    MICRO_GRADIENT_1X2,
    MICRO_GRADIENT_1X1
} micro_kernel;

#define FIRST_PARTICULAR MICRO_TRANSPOSED_FIVE /* from here on one suits whole tiles only */
#define FIRST_GRADIENT MICRO_GRADIENT_3X3

/* Of an input gradient; MICRO_GENERAL for another product. A program that computes none lacks it. */
POET_OPTIONAL micro_kernel poet_gradient_kernel_of(const poet_gemm *gemm);

static inline micro_kernel transposed_kernel_of(const poet_gemm *gemm)
{
    if (gemm->columns < POET_TILE || gemm->out_column > 2) {
        return MICRO_TRANSPOSED;
    }
    if (gemm->out_column == 2) {
        return MICRO_TRANSPOSED_SPREAD;
    }
    return gemm->rows % 5 == 0 && gemm->rows % POET_TILE != 0 ? MICRO_TRANSPOSED_FIVE : MICRO_TRANSPOSED;
}

/* Whether results are stored where they belong, and not through a buffer. */
static inline int stores_in_place(micro_kernel kernel, const poet_gemm *gemm)
{
    return kernel >= FIRST_PARTICULAR ||
           (gemm->rows >= POET_TILE && gemm->columns >= POET_TILE && gemm->out_column == 1);
}

/* Not inlined, as cursor_begin. */
__attribute__((noinline)) static micro_kernel kernel_of(const poet_cursor *cursor, const poet_gemm *gemm)
{
    const int singles = cursor->taps == 1 && cursor->channels == 1;
    if (gemm->columns >= POET_TILE && poet_gradient_kernel_of != NULL) {
        const micro_kernel gradient = poet_gradient_kernel_of(gemm);
        if (gradient != MICRO_GENERAL) {
            return gradient;
        }
    }
    if (singles && cursor->a_k_row == 1 && (cursor->b_column == 1 || cursor->b_column == 2)) {
        return cursor->b_column == 1 ? MICRO_SINGLES : MICRO_SINGLES_STRIDE_2;
    }
    if (singles && cursor->b_column == 1 && !cursor->started) { /* no convolution needs these with a bias */
        return gemm->rows >= POET_TILE && gemm->a_row == 1 ? transposed_kernel_of(gemm) : MICRO_STRIDED;
    }
    const int triples = cursor->channels == 1 && cursor->taps == 3 && cursor->k_rows % 3 == 0 && cursor->a_tap == 1 &&
                        cursor->a_k_row == 3;
    if (triples && cursor->b_tap == 1 && (cursor->b_column == 1 || cursor->b_column == 2)) {
        return cursor->b_column == 1 ? MICRO_TRIPLES : MICRO_TRIPLES_STRIDE_2;
    }
    return MICRO_GENERAL;
}

#define ENTER_BEHIND 8
#define ENTER_WITH_START 9

/* How K_LOOP enters its loop. */
static inline void prepare_k_loop(poet_cursor *cursor, micro_kernel kernel)
{
    const int is_contiguous = kernel == MICRO_SINGLES || kernel == MICRO_SINGLES_STRIDE_2;
    const int32_t k_rows = cursor->k_rows - 1; /* the first one is multiplied outside */
    cursor->passes = (k_rows + 7) / 8;
    cursor->resume = k_rows == 0 ? ENTER_BEHIND : 8 * cursor->passes - k_rows;
    cursor->entry = cursor->started ? ENTER_WITH_START : cursor->resume;
    cursor->a_step_bytes = (is_contiguous ? 1 - cursor->resume : cursor->a_k_row) * (int32_t)sizeof(float);
}

/* From where a tile leaves B to the next tile. */
static inline void prepare_tiles(poet_cursor *cursor, micro_kernel kernel, const poet_gemm *gemm)
{
    const int has_channels = kernel == MICRO_GENERAL || kernel >= FIRST_GRADIENT;
    const int32_t k_rows = cursor->k_rows * cursor->b_k_row;
    const int32_t passed = has_channels ? cursor->channels * (k_rows + cursor->b_channel) : k_rows;
    cursor->b_tile_bytes = (POET_TILE * gemm->b_column - passed) * (int32_t)sizeof(float);
}

/* Adds to results of whatever shape. */
#define ANY_ADDING_KERNEL MICRO_GENERAL

/* Only these have a form that adds to results: what else there is serves shapes that are seldom or never streamed or in
 * slices. */
static inline micro_kernel adding_kernel_of(const poet_cursor *cursor, const poet_gemm *gemm)
{
    const micro_kernel kernel = gemm->rows >= POET_TILE ? kernel_of(cursor, gemm) : MICRO_GENERAL;
    switch (kernel) {
    case MICRO_SINGLES:
    case MICRO_TRIPLES:
    case MICRO_TRIPLES_STRIDE_2:
    case MICRO_TRANSPOSED:
    case MICRO_GRADIENT_3X3:
        return kernel;
    case MICRO_TRANSPOSED_FIVE:
        return MICRO_TRANSPOSED;
    case MICRO_GRADIENT_THREE:
        return MICRO_GRADIENT_3X3;
    default:
        return MICRO_GENERAL;
    }
}

/* Picks the micro-kernel, and fills in what it needs. */
static inline micro_kernel choose_micro_kernel(poet_cursor *cursor, const poet_gemm *gemm)
{
    const micro_kernel kernel = kernel_of(cursor, gemm);
    cursor->rows = kernel == MICRO_TRANSPOSED_FIVE ? 5 : kernel == MICRO_GRADIENT_THREE ? 3 : POET_TILE;
    prepare_k_loop(cursor, kernel);
    prepare_tiles(cursor, kernel, gemm);
    return kernel;
}

static inline micro_kernel choose_adding_kernel(poet_cursor *cursor, const poet_gemm *gemm)
{
    const micro_kernel kernel = adding_kernel_of(cursor, gemm);
    cursor->rows = POET_TILE;
    prepare_k_loop(cursor, kernel);
    cursor->entry = ENTER_WITH_START; /* which is what these kernels take from the results */
    prepare_tiles(cursor, kernel, gemm);
    return kernel;
}

#endif
