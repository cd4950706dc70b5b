/* SPDX-License-Identifier: Apache-2.0 */
/* Micro-kernels in C, for every target without its own: each step multiplies one element of each of a tile's rows with
 * one of each of its columns. */
#ifndef POET_OPS_MICRO_KERNEL_C_INL_H
#define POET_OPS_MICRO_KERNEL_C_INL_H

#include <stddef.h>

#include "micro_kernel.h"
#include "multiply_add.h"

typedef int micro_kernel; /* there is but one here */

static inline micro_kernel choose_micro_kernel(poet_cursor *cursor, const poet_gemm *gemm)
{
    (void)gemm;
    cursor->rows = POET_TILE;
    return 0;
}

/* `sums` come in as they begin. */
static void multiply_4x4(const poet_cursor *cursor, float *sums)
{
    const float *columns[POET_TILE];
    for (int32_t i = 0; i < POET_TILE; i++) {
        columns[i] = cursor->b + i * cursor->b_column;
    }
    ptrdiff_t a = 0;
    ptrdiff_t b = 0;
    for (int32_t channel = 0; channel < cursor->channels; channel++) {
        for (int32_t k_row = 0; k_row < cursor->k_rows; k_row++) {
            for (int32_t tap = 0; tap < cursor->taps; tap++) {
                multiply_add_4x4(sums, cursor->a, a + tap * cursor->a_tap, columns, b + tap * cursor->b_tap);
            }
            a += cursor->a_k_row;
            b += cursor->b_k_row;
        }
        a += cursor->a_channel;
        b += cursor->b_channel;
    }
    for (int32_t i = 0; i < POET_TILE; i++) {
        for (int32_t j = 0; j < POET_TILE; j++) {
            cursor->out[i * cursor->out_row + j] = sums[i * POET_TILE + j];
        }
    }
}

static void multiply_tiles(const poet_cursor *whole, micro_kernel kernel)
{
    (void)kernel;
    poet_cursor cursor = *whole;
    for (; cursor.tiles > 0; cursor.tiles--) {
        float sums[POET_TILE * POET_TILE];
        for (int32_t i = 0; i < POET_TILE * POET_TILE; i++) {
            sums[i] = cursor.start[i / POET_TILE];
        }
        multiply_4x4(&cursor, sums);
        cursor.b += POET_TILE * cursor.b_column;
        cursor.out += POET_TILE;
    }
}

#define ANY_ADDING_KERNEL 0

static inline micro_kernel choose_adding_kernel(poet_cursor *cursor, const poet_gemm *gemm)
{
    return choose_micro_kernel(cursor, gemm);
}

static void add_tiles(const poet_cursor *whole, micro_kernel kernel)
{
    (void)kernel;
    poet_cursor cursor = *whole;
    for (; cursor.tiles > 0; cursor.tiles--) {
        float sums[POET_TILE * POET_TILE];
        for (int32_t i = 0; i < POET_TILE * POET_TILE; i++) {
            sums[i] = cursor.out[i / POET_TILE * cursor.out_row + i % POET_TILE];
        }
        multiply_4x4(&cursor, sums);
        cursor.b += POET_TILE * cursor.b_column;
        cursor.out += POET_TILE;
    }
}

static inline int stores_in_place(micro_kernel kernel, const poet_gemm *gemm)
{
    (void)kernel;
    return gemm->rows >= POET_TILE && gemm->columns >= POET_TILE && gemm->out_column == 1;
}

static inline int suits_pair(micro_kernel kernel)
{
    (void)kernel;
    return 0;
}

static inline int multiply_vector(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out)
{
    (void)gemm;
    (void)a;
    (void)start;
    (void)b;
    (void)out;
    return 0;
}

static inline int nt_add_3x3(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    (void)gemm;
    (void)a;
    (void)b;
    (void)out;
    return 0;
}

static inline int suits_nt_tiles(const poet_gemm_nt *gemm, int32_t columns)
{
    (void)gemm;
    return columns == POET_TILE;
}

static inline int32_t nt_add_row_quickly(const poet_gemm_nt *gemm, int32_t columns, const float *a,
                                         const float *const *b, float *out)
{
    (void)gemm;
    (void)columns;
    (void)a;
    (void)b;
    (void)out;
    return 0;
}

static void nt_add_4x4(const poet_nt_cursor *cursor, ptrdiff_t a, float *out)
{
    float sums[POET_TILE * POET_TILE];
    for (int32_t i = 0; i < POET_TILE; i++) {
        for (int32_t j = 0; j < POET_TILE; j++) {
            sums[i * POET_TILE + j] = out[i * cursor->out_row + j];
        }
    }
    for (int32_t k_row = 0; k_row < cursor->k_rows; k_row++) {
        for (int32_t tap = 0; tap < cursor->taps; tap++) {
            multiply_add_4x4(sums, cursor->a, a++, cursor->b, k_row * cursor->b_k_row + tap * cursor->b_tap);
        }
    }
    for (int32_t i = 0; i < POET_TILE; i++) {
        for (int32_t j = 0; j < POET_TILE; j++) {
            out[i * cursor->out_row + j] = sums[i * POET_TILE + j];
        }
    }
}

static void nt_add_tiles(const poet_nt_cursor *cursor)
{
    const int32_t a_tile = cursor->a_gap_bytes / (int32_t)sizeof(float) + cursor->k_rows * cursor->taps;
    for (int32_t tile = 0; tile < cursor->tiles; tile++) {
        nt_add_4x4(cursor, tile * a_tile, cursor->out + tile * POET_TILE * cursor->out_row);
    }
}

#endif
