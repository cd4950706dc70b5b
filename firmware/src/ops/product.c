/* SPDX-License-Identifier: Apache-2.0 */
#include "product.h"

#include <stddef.h>

#include "block.h"

/* Fewer columns than a block's. */
static void multiply_row(const poet_product *p, const float *a, const float *c, float *y)
{
    for (int32_t n = 0; n < p->n; n++) {
        float sum = -0.0f; /* as in a block */
        for (int32_t k = 0; k < p->k; k++) {
            sum += a[k * p->a_k] * c[k * p->c_k + n * p->c_n];
        }
        y[n] = sum;
    }
}

/* Both factors' elements lie behind one another along k. */
static void multiply_rows_by_rows(const poet_product *p, const float *a, const float *c, float *y)
{
    poet_dot dot = {.rows = p->m, .lines = 1, .taps = p->k, .a_row = p->a_m, .b_tap = 1, .out_row = p->n};
    for (int32_t i = 0; i < p->m * p->n; i++) {
        y[i] = 0.0f;
    }
    for (int32_t n = 0; n < p->n; n += dot.columns) {
        const float *columns[POET_DOT_COLUMNS];
        dot.columns = p->n - n < POET_DOT_COLUMNS ? p->n - n : POET_DOT_COLUMNS;
        for (int32_t j = 0; j < dot.columns; j++) {
            columns[j] = c + (n + j) * p->c_n;
        }
        poet_dot_add(&dot, a, columns, y + n);
    }
}

/* Columns are read four at a time: where there are not so many, the result is computed transposed. */
static void multiply_blocks(const poet_product *p, const float *a, const float *c, float *y)
{
    const int turned = p->n < POET_BLOCK;
    poet_block block; /* set field by field: the compiler would clear it by a call */
    block.rows = turned ? p->n : p->m;
    block.columns = turned ? p->m : p->n;
    block.channels = 1;
    block.lines = p->k;
    block.taps = 1;
    block.a_row = turned ? p->c_n : p->a_m;
    block.a_channel = 0;
    block.a_line = turned ? p->c_k : p->a_k;
    block.a_tap = 0;
    block.b_column = turned ? p->a_m : p->c_n;
    block.b_channel = 0;
    block.b_line = turned ? p->a_k : p->c_k;
    block.b_tap = 0;
    block.out_row = turned ? 1 : p->n;
    block.out_column = turned ? p->n : 1;
    block.strips = 1;
    block.b_strip = 0;
    block.out_strip = 0;
    poet_block_multiply(&block, turned ? c : a, NULL, turned ? a : c, y);
}

void poet_product_compute(const poet_product *p, const float *a, const float *c, float *y)
{
    if (p->a_k == 1 && p->c_k == 1) {
        multiply_rows_by_rows(p, a, c, y);
    } else if (p->n >= POET_BLOCK || p->m >= POET_BLOCK) {
        multiply_blocks(p, a, c, y);
    } else {
        for (int32_t m = 0; m < p->m; m++) {
            multiply_row(p, a + m * p->a_m, c, y + m * p->n);
        }
    }
}
