/* SPDX-License-Identifier: Apache-2.0 */
/* y[m,n] = sum over k of x[m,k] * w[n,k], plus b[n]; and the same added to a sum so far. */
#include "../kernels/product.h"
#include "../kernels/shape.h"
#include "sum_so_far.h"

int poet_linear_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("ab,cb,d?c>ac", params, sizes);
}

int poet_linear_accumulate_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_accumulate(poet_linear_sizes(params, sizes), sizes);
}

static void add_bias(const poet_linear_params *p, const float *bias, float *y)
{
    for (int32_t m = 0; m < p->m; m++) {
        for (int32_t n = 0; n < p->n; n++) {
            *y++ += bias[n];
        }
    }
}

__attribute__((always_inline)) static inline int run(const poet_op_args *args, poet_product_way *multiply,
                                                     int bias_input)
{
    const poet_linear_params *p = (const poet_linear_params *)args->params;
    const poet_product product = {
        .m = p->m, .k = p->k, .n = p->n, .a_m = p->k, .a_k = 1, .c_k = 1, .c_n = p->k, .y_m = p->n};
    multiply(&product, args->inputs[0], args->inputs[1], args->outputs[0]);
    if (p->bias) {
        add_bias(p, args->inputs[bias_input], args->outputs[0]);
    }
    return POET_OK;
}

int poet_linear_run(const poet_op_args *args)
{
    return run(args, poet_product_compute, 2);
}

int poet_linear_accumulate_run(const poet_op_args *args)
{
    const poet_linear_params *p = (const poet_linear_params *)args->params;
    (void)poet_sum_so_far(args, p->m * p->n);
    return run(args, poet_product_add, 3);
}
