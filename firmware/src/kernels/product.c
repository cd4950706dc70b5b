/* SPDX-License-Identifier: Apache-2.0 */
#include "product.h"

#include <stddef.h>

#include "gemm.h"
#include "multiply_add.h"
#include "span.h"

/* Fewer rows and columns than a tile's. Not inlined, as others here: a small product in tiles would pay for its
 * registers. */
__attribute__((noinline)) static void multiply_small(const poet_product *p, int adds, const float *a, const float *c,
                                                     float *y)
{
    for (int32_t m = 0; m < p->m; m++) {
        for (int32_t n = 0; n < p->n; n++) {
            float sum = adds ? y[n] : -0.0f; /* as in a tile */
            for (int32_t k = 0; k < p->k; k++) {
                sum += a[k * p->a_k] * c[k * p->c_k + n * p->c_n];
            }
            y[n] = sum;
        }
        a += p->a_m;
        y += p->y_m;
    }
}

/* Both factors' elements lie one after another along k. */
__attribute__((noinline)) static void add_rows_by_rows(const poet_product *p, const float *a, const float *c, float *y)
{
    poet_gemm_nt gemm = {.rows = p->m, .k_rows = 1, .taps = p->k, .a_row = p->a_m, .b_tap = 1, .out_row = p->y_m};
    for (int32_t n = 0; n < p->n; n += gemm.columns) {
        const float *columns[POET_GEMM_NT_COLUMNS];
        gemm.columns = p->n - n < POET_GEMM_NT_COLUMNS ? p->n - n : POET_GEMM_NT_COLUMNS;
        for (int32_t j = 0; j < gemm.columns; j++) {
            columns[j] = c + (n + j) * p->c_n;
        }
        poet_gemm_nt_add(&gemm, a, columns, y + n);
    }
}

/* Columns are read four at a time: where there are not so many, the result is computed transposed. */
static inline int is_transposed(const poet_product *p)
{
    return p->n < POET_TILE;
}

static inline void begin_tiles(const poet_product *p, poet_gemm *gemm)
{
    const int transposed = is_transposed(p);
    /* set field by field: the compiler would clear it by a call */
    gemm->rows = transposed ? p->n : p->m;
    gemm->columns = transposed ? p->m : p->n;
    gemm->channels = 1;
    gemm->k_rows = p->k;
    gemm->taps = 1;
    gemm->a_row = transposed ? p->c_n : p->a_m;
    gemm->a_channel = 0;
    gemm->a_k_row = transposed ? p->c_k : p->a_k;
    gemm->a_tap = 0;
    gemm->b_column = transposed ? p->a_m : p->c_n;
    gemm->b_channel = 0;
    gemm->b_k_row = transposed ? p->a_k : p->c_k;
    gemm->b_tap = 0;
    gemm->out_row = transposed ? 1 : p->y_m;
    gemm->out_column = transposed ? p->y_m : 1;
    gemm->panels = 1;
    gemm->b_panel = 0;
    gemm->out_panel = 0;
}

static int is_outer(const poet_product *p)
{
    return p->k == 1 && p->c_n == 1;
}

void poet_outer_add(const poet_product *p, const float *a, const float *c, const float *sum, float *y)
{
    const int32_t fours = p->n - p->n % POET_TILE;
    for (int32_t m = 0; m < p->m; m++, a += p->a_m, sum += p->y_m - p->n, y += p->y_m - p->n) {
        const float *at = c, *const end = c + fours, *const last = c + p->n;
        for (; at < end; at += POET_TILE, sum += POET_TILE, y += POET_TILE) { /* read before one is written */
            float sums[] = {sum[0], sum[1], sum[2], sum[3]};
            poet_multiply_add_1x4(sums, *a, at[0], at[1], at[2], at[3]);
            y[0] = sums[0], y[1] = sums[1], y[2] = sums[2], y[3] = sums[3];
        }
        for (; at < last; at++) {
            *y++ = poet_multiply_add_1x1(*sum++, *a, *at);
        }
    }
}

static int is_small(const poet_product *p)
{
    return p->n < POET_TILE && p->m < POET_TILE;
}

static int by_rows(const poet_product *p)
{
    return p->a_k == 1 && p->c_k == 1;
}

__attribute__((noinline)) static void multiply_rows_by_rows(const poet_product *p, const float *a, const float *c,
                                                            float *y)
{
    const int contiguous = p->y_m == p->n;
    const int32_t rows = contiguous ? 1 : p->m;
    const int32_t columns = contiguous ? p->m * p->n : p->n;
    for (int32_t m = 0; m < rows; m++) {
        poet_clear(y + m * p->y_m, columns);
    }
    add_rows_by_rows(p, a, c, y);
}

void poet_product_compute(const poet_product *p, const float *a, const float *c, float *y)
{
    if (by_rows(p)) {
        multiply_rows_by_rows(p, a, c, y);
    } else if (is_small(p)) {
        multiply_small(p, 0, a, c, y);
    } else {
        poet_gemm gemm;
        begin_tiles(p, &gemm);
        poet_gemm_multiply(&gemm, is_transposed(p) ? c : a, NULL, is_transposed(p) ? a : c, y);
    }
}

void poet_product_add(const poet_product *p, const float *a, const float *c, float *y)
{
    if (is_outer(p)) {
        poet_outer_add(p, a, c, y, y);
    } else if (by_rows(p)) {
        add_rows_by_rows(p, a, c, y);
    } else if (is_small(p)) {
        multiply_small(p, 1, a, c, y);
    } else {
        poet_gemm gemm;
        begin_tiles(p, &gemm);
        poet_gemm_add(&gemm, is_transposed(p) ? c : a, NULL, is_transposed(p) ? a : c, y);
    }
}
