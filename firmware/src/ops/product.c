/* SPDX-License-Identifier: Apache-2.0 */
#include "product.h"

#include <stddef.h>

#include "gemm.h"

/* Fewer columns than a tile's. */
static void multiply_row(const poet_product *p, int adds, const float *a, const float *c, float *y)
{
    for (int32_t n = 0; n < p->n; n++) {
        float sum = adds ? y[n] : -0.0f; /* as in a tile */
        for (int32_t k = 0; k < p->k; k++) {
            sum += a[k * p->a_k] * c[k * p->c_k + n * p->c_n];
        }
        y[n] = sum;
    }
}

/* Both factors' elements lie behind one another along k. */
static void add_rows_by_rows(const poet_product *p, const float *a, const float *c, float *y)
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
static void multiply_tiles(const poet_product *p, int adds, const float *a, const float *c, float *y)
{
    const int transposed = p->n < POET_TILE;
    poet_gemm gemm; /* set field by field: the compiler would clear it by a call */
    gemm.rows = transposed ? p->n : p->m;
    gemm.columns = transposed ? p->m : p->n;
    gemm.channels = 1;
    gemm.k_rows = p->k;
    gemm.taps = 1;
    gemm.a_row = transposed ? p->c_n : p->a_m;
    gemm.a_channel = 0;
    gemm.a_k_row = transposed ? p->c_k : p->a_k;
    gemm.a_tap = 0;
    gemm.b_column = transposed ? p->a_m : p->c_n;
    gemm.b_channel = 0;
    gemm.b_k_row = transposed ? p->a_k : p->c_k;
    gemm.b_tap = 0;
    gemm.out_row = transposed ? 1 : p->y_m;
    gemm.out_column = transposed ? p->y_m : 1;
    gemm.panels = 1;
    gemm.b_panel = 0;
    gemm.out_panel = 0;
    if (adds) {
        poet_gemm_add(&gemm, transposed ? c : a, transposed ? a : c, y);
    } else {
        poet_gemm_multiply(&gemm, transposed ? c : a, NULL, transposed ? a : c, y);
    }
}

static int by_rows(const poet_product *p)
{
    return p->a_k == 1 && p->c_k == 1;
}

static void multiply(const poet_product *p, int adds, const float *a, const float *c, float *y)
{
    if (p->n >= POET_TILE || p->m >= POET_TILE) {
        multiply_tiles(p, adds, a, c, y);
    } else {
        for (int32_t m = 0; m < p->m; m++) {
            multiply_row(p, adds, a + m * p->a_m, c, y + m * p->y_m);
        }
    }
}

void poet_product_compute(const poet_product *p, const float *a, const float *c, float *y)
{
    if (!by_rows(p)) {
        multiply(p, 0, a, c, y);
        return;
    }
    for (int32_t m = 0; m < p->m; m++) {
        for (int32_t n = 0; n < p->n; n++) {
            y[m * p->y_m + n] = 0.0f;
        }
    }
    add_rows_by_rows(p, a, c, y);
}

void poet_product_add(const poet_product *p, const float *a, const float *c, float *y)
{
    if (by_rows(p)) {
        add_rows_by_rows(p, a, c, y);
    } else {
        multiply(p, 1, a, c, y);
    }
}
