/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent on the kept weights and bias of a linear layer, some rows at a time. The gradient of a row of
 * weights is gw[n,k] = sum over m of gy[m,n] * x[m,k], that of the bias gb[n] = sum over m of gy[m,n], each one running
 * sum as in `matmul` and `sum_rows`. */
#include "product.h"
#include "shape.h"
#include "update.h"

int poet_linear_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_linear_update_params *p = (const poet_linear_update_params *)params;
    const uint32_t x = poet_count(p->m, p->k, 1, 1);
    const uint32_t w = poet_count(p->n, p->k, 1, 1);
    const uint32_t y = poet_count(p->m, p->n, 1, 1);
    if (x == 0 || w == 0 || y == 0 || (p->bias & ~1) != 0 || p->tile < 1 || p->tile > p->n) {
        return POET_E_ARGUMENT;
    }
    const uint32_t b = p->bias ? 4 * (uint32_t)p->n : 0;
    *sizes = (poet_sizes){
        .inputs = p->bias ? 4 : 3,
        .outputs = p->bias ? 2 : 1,
        .input_bytes = {4 * y, 4 * x, 4 * w, b},
        .output_bytes = {4 * w, b},
        .workspace_bytes = POET_UPDATE_BUFFER_BYTES + 4 * (uint32_t)p->tile * (uint32_t)p->k,
        .kept = POET_KEPT_OUTPUTS,
    };
    return POET_OK;
}

static void sum_columns(const float *gy, int32_t m, int32_t n, int32_t columns, float *sums)
{
    for (int32_t j = 0; j < columns; j++) {
        sums[j] = gy[j];
    }
    for (int32_t i = 1; i < m; i++) {
        gy += n;
        for (int32_t j = 0; j < columns; j++) {
            sums[j] += gy[j];
        }
    }
}

int poet_linear_update_run(const poet_op_args *args)
{
    const poet_linear_update_params *p = (const poet_linear_update_params *)args->params;
    const float *gy = args->inputs[0];
    const float *x = args->inputs[1];
    float *tile = (float *)args->workspace + POET_UPDATE_BUFFER_BYTES / sizeof(float);
    poet_update weights = poet_update_begin(args, 0, args->inputs[2]);
    for (int32_t n = 0; n < p->n; n += p->tile) {
        const int32_t rows = p->n - n < p->tile ? p->n - n : p->tile;
        const poet_product product = {.m = rows, .k = p->m, .n = p->k, .a_m = 1, .a_k = p->n, .c_k = p->k, .c_n = 1};
        poet_product_compute(&product, gy + n, x, tile);
        poet_update_tile(&weights, tile, rows * p->k);
    }
    const int status = poet_update_end(&weights);
    if (status != POET_OK || !p->bias) {
        return status;
    }
    const int32_t columns_at_once = p->tile * p->k;
    poet_update bias = poet_update_begin(args, 1, args->inputs[3]);
    for (int32_t n = 0; n < p->n; n += columns_at_once) {
        const int32_t columns = p->n - n < columns_at_once ? p->n - n : columns_at_once;
        sum_columns(gy + n, p->m, p->n, columns, tile);
        poet_update_tile(&bias, tile, columns);
    }
    return poet_update_end(&bias);
}
