/* SPDX-License-Identifier: Apache-2.0 */
/* Batched matrix product; `ta` and `tb` say that a factor is stored transposed. And the same added to a sum so far. */
#include "../kernels/product.h"
#include "../kernels/shape.h"
#include "sum_so_far.h"

int poet_matmul_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_matmul_params *p = (const poet_matmul_params *)params;
    return ((p->ta | p->tb) & ~1) != 0 ? POET_E_ARGUMENT : poet_sizes_read("abc,acd>abd", params, sizes);
}

int poet_matmul_accumulate_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_accumulate(poet_matmul_sizes(params, sizes), sizes);
}

static int run(const poet_op_args *args, poet_product_way *multiply)
{
    const poet_matmul_params *p = (const poet_matmul_params *)args->params;
    const float *a = args->inputs[0];
    const float *c = args->inputs[1];
    float *y = args->outputs[0];
    const poet_product product = {
        .m = p->m,
        .k = p->k,
        .n = p->n,
        .a_m = p->ta ? 1 : p->k,
        .a_k = p->ta ? p->m : 1,
        .c_k = p->tb ? 1 : p->n,
        .c_n = p->tb ? p->k : 1,
        .y_m = p->n,
    };
    for (int32_t b = 0; b < p->b; b++) {
        multiply(&product, a, c, y);
        a += p->m * p->k;
        c += p->k * p->n;
        y += p->m * p->n;
    }
    return POET_OK;
}

int poet_matmul_run(const poet_op_args *args)
{
    return run(args, poet_product_compute);
}

int poet_matmul_accumulate_run(const poet_op_args *args)
{
    const poet_matmul_params *p = (const poet_matmul_params *)args->params;
    if (p->b == 1 && p->k == 1) {
        const poet_product outer = {.m = p->m, .n = p->n, .a_m = 1, .y_m = p->n};
        poet_outer_add(&outer, args->inputs[0], args->inputs[1], args->inputs[POET_SUM_INPUT], args->outputs[0]);
        return POET_OK;
    }
    (void)poet_sum_so_far(args, p->b * p->m * p->n);
    return run(args, poet_product_add);
}
