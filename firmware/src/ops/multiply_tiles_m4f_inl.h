/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles whose sums begin with nothing or with a number of their row, for the Cortex-M4F. */
#ifndef POET_OPS_MULTIPLY_TILES_M4F_INL_H
#define POET_OPS_MULTIPLY_TILES_M4F_INL_H

#include "gemv_m4f_inl.h"
#include "general_tiles_m4f_inl.h"

static inline void multiply_gradient(const poet_cursor *cursor, micro_kernel kernel)
{
    const float *a0, *a1, *a2, *a3, *b = cursor->b;
    float *out = cursor->out;
    int32_t tiles = cursor->tiles, n;
    if (kernel == MICRO_GRADIENT_1X2 || kernel == MICRO_GRADIENT_1X1) {
        enum { one_k_row = 1 };
        const int32_t a_channel = cursor->a_k_row, b_channel = cursor->b_k_row;
        if (kernel == MICRO_GRADIENT_1X2) {
            GRADIENT(START_SUMS, STORE_SPREAD, REVERSED_TWO("0", "8"));
        } else {
            GRADIENT(START_SUMS, STORE_SPREAD, REVERSED_ONE("0"));
        }
        return;
    }
    enum { one_k_row = 0 };
    const int32_t a_channel = cursor->a_channel + cursor->k_rows * cursor->a_k_row;
    const int32_t b_channel = cursor->b_channel + cursor->b_k_row;
    if (kernel == MICRO_GRADIENT_3X3) {
        GRADIENT(START_SUMS, STORE, REVERSED_3X3(REVERSED_THREE));
    } else if (kernel == MICRO_GRADIENT_THREE) {
        GRADIENT(START_SUMS, STORE_THREE_ROWS, REVERSED_3X3(REVERSED_THREE_ROWS));
    } else if (kernel == MICRO_GRADIENT_2X2) {
        GRADIENT(START_SUMS, STORE_SPREAD, REVERSED_TWO("0", "8") NEXT_K_ROW REVERSED_TWO("24", "32"));
    } else {
        GRADIENT(START_SUMS, STORE_SPREAD, REVERSED_ONE("0") NEXT_K_ROW REVERSED_ONE("24"));
    }
}

/* Columns of B are contiguous in all of these. */
static inline int suits_pair(micro_kernel kernel)
{
    return kernel == MICRO_SINGLES || kernel == MICRO_TRANSPOSED || kernel == MICRO_STRIDED;
}

/* After the whole tiles the last columns, if they are two or one: as two, the first of them perhaps once more. */
static inline void multiply_left(const poet_cursor *cursor, micro_kernel kernel)
{
    if (cursor->left == 0) {
        return;
    }
    const float *a0, *a1, *a2, *a3;
    const float *b = cursor->b + POET_TILE * cursor->tiles + cursor->left - 2;
    float *out = cursor->out + POET_TILE * cursor->tiles + cursor->left - 2;
    int32_t tiles = 1, n, t;
    if (kernel == MICRO_SINGLES) {
        SINGLES(ADD_START, STORE_COLUMNS(TWO), LOAD_TWO, FIRST_TWO, TAP_PAIR);
    } else if (kernel == MICRO_TRANSPOSED) {
        TRANSPOSED_TILES(NO_START, STORE_COLUMNS(TWO), LOAD_TWO, FIRST_TWO, TAP_PAIR);
    } else {
        STRIDED(STORE_COLUMNS(TWO), LOAD_TWO, FIRST_TWO, TAP_PAIR);
    }
}

static inline void multiply_tiles(const poet_cursor *cursor, micro_kernel kernel)
{
    const float *a0, *a1, *a2, *a3, *b = cursor->b;
    float *out = cursor->out;
    int32_t tiles = cursor->tiles, n, t;
    switch (kernel) {
    case MICRO_SINGLES:
        SINGLES(ADD_START, STORE, LOAD_FOUR, FIRST_FOUR, TAP_FOUR);
        multiply_left(cursor, kernel);
        break;
    case MICRO_SINGLES_STRIDE_2:
        SINGLES(ADD_START, STORE, LOAD_FOUR_STRIDE_2, FIRST_FOUR, TAP_FOUR);
        break;
    case MICRO_TRIPLES:
        TRIPLES(FROM_START, TRIPLE);
        break;
    case MICRO_TRIPLES_STRIDE_2:
        TRIPLES(FROM_START, TRIPLE_STRIDE_2);
        break;
    case MICRO_TRANSPOSED:
        TRANSPOSED_TILES(NO_START, STORE, LOAD_FOUR, FIRST_FOUR, TAP_FOUR);
        multiply_left(cursor, kernel);
        break;
    case MICRO_STRIDED:
        STRIDED(STORE, LOAD_FOUR, FIRST_FOUR, TAP_FOUR);
        multiply_left(cursor, kernel);
        break;
    case MICRO_TRANSPOSED_FIVE:
        BY_EIGHT(NO_START, STORE_FIVE_ROWS, FROM_ONE_ROW, TRANSPOSED_FIVE(FIRST_ROW_OF_FIVE),
                 TRANSPOSED_FIVE(ROW_OF_FIVE));
        break;
    case MICRO_TRANSPOSED_SPREAD:
        TRANSPOSED_TILES(NO_START, STORE_SPREAD, LOAD_FOUR, FIRST_FOUR, TAP_FOUR);
        break;
    case MICRO_GRADIENT_3X3:
    case MICRO_GRADIENT_THREE:
    case MICRO_GRADIENT_2X2:
    case MICRO_GRADIENT_2X1:
    case MICRO_GRADIENT_1X2:
    case MICRO_GRADIENT_1X1:
        multiply_gradient(cursor, kernel);
        break;
    case MICRO_GENERAL:
        multiply_tiles_general(cursor, 0);
        break;
    }
}

#endif
