/* SPDX-License-Identifier: Apache-2.0 */
/* y[m,n] = sum over k of x[m,k] * w[n,k], of int8: two rows of x are a column. */
#include "../kernels/products_s8.h"
#include "../kernels/shape.h"

static poet_range_s8 range_of(const poet_linear_s8_params *p)
{
    return (poet_range_s8){p->zero_y, p->low, p->high};
}

int poet_linear_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_linear_s8_params *p = (const poet_linear_s8_params *)params;
    const poet_range_s8 range = range_of(p);
    const uint32_t x = poet_count(p->m, p->k, 1, 1);
    const uint32_t w = poet_count(p->n, p->k, 1, 1);
    const uint32_t y = poet_count(p->m, p->n, 1, 1);
    if (x == 0 || w == 0 || y == 0 || !poet_range_s8_is_sound(&range)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 4,
        .outputs = 1,
        .input_bytes = {x, w, 4u * (uint32_t)p->n, 4u * (uint32_t)p->n},
        .output_bytes = {y},
        .workspace_bytes = poet_column_bytes((uint32_t)p->k) + 8u * (uint32_t)p->n + 8u,
        .s8 = 1u | 2u,
        .starts = 4u,
        .scales = 8u,
    };
    return POET_OK;
}

/* The results of one row, or of two, from pairs of sums. */
static void put_rows(const poet_op_args *args, const int32_t *sums, int32_t rows, int8_t *y)
{
    const poet_linear_s8_params *p = (const poet_linear_s8_params *)args->params;
    const int32_t *start = args->inputs[2];
    const float *scale = args->inputs[3];
    const poet_range_s8 range = range_of(p);
    for (int32_t n = 0; n < p->n; n++, sums += 2) {
        const poet_scale_s8 by = poet_scale_s8_of(scale[n]);
        y[n] = poet_result_s8(poet_wrapped_sum(sums[0], start[n]), &by, &range);
        if (rows == 2) {
            y[p->n + n] = poet_result_s8(poet_wrapped_sum(sums[1], start[n]), &by, &range);
        }
    }
}

int poet_linear_s8_run(const poet_op_args *args)
{
    const poet_linear_s8_params *p = (const poet_linear_s8_params *)args->params;
    const int8_t *x = args->inputs[0];
    int8_t *y = args->outputs[0];
    uint32_t *column = args->workspace;
    int32_t *sums = (int32_t *)(column + poet_column_bytes((uint32_t)p->k) / sizeof *column);
    for (int32_t m = 0; m < p->m; m += 2, x += 2 * p->k, y += 2 * p->n) {
        const int32_t two = m + 1 < p->m;
        poet_column_of_taps(column, x, p->k, 1, two ? p->k : 0);
        poet_products_s8(column, p->k, args->inputs[1], p->n, sums, 2);
        put_rows(args, sums, 1 + two, y);
    }
    return POET_OK;
}
