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
    poet_block block = {.channels = 1, .lines = p->k, .taps = 1, .strips = 1};
    if (p->n >= POET_BLOCK) {
        block.rows = p->m;
        block.a_row = p->a_m;
        block.a_line = p->a_k;
        block.columns = p->n;
        block.b_column = p->c_n;
        block.b_line = p->c_k;
        block.out_row = p->n;
        block.out_column = 1;
        poet_block_multiply(&block, a, NULL, c, y);
    } else {
        block.rows = p->n;
        block.a_row = p->c_n;
        block.a_line = p->c_k;
        block.columns = p->m;
        block.b_column = p->a_m;
        block.b_line = p->a_k;
        block.out_row = 1;
        block.out_column = p->n;
        poet_block_multiply(&block, c, NULL, a, y);
    }
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
