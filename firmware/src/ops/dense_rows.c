/* SPDX-License-Identifier: Apache-2.0 */
/* Some features of a dense layer of one sample: its two gradients by some columns of each of so many planes, and its
 * sums by some features after others. */
#include "../kernels/product.h"
#include "../kernels/shape.h"
#include "sum_so_far.h"

/* w is `a` rows of planes of `of` columns; x or y has `size` of each plane. */
static int read_planes(const int32_t *params, poet_sizes *sizes)
{
    const poet_matmul_rows_params *p = (const poet_matmul_rows_params *)params;
    const uint32_t a = poet_count(p->k, 1, 1, 1), w = poet_count(p->k, p->c, p->of, 1),
                   y = poet_count(p->c, p->size, 1, 1);
    *sizes = (poet_sizes){.inputs = 2, .outputs = 1, .input_bytes = {4 * a, 4 * w}, .output_bytes = {4 * y}};
    return a != 0 && w != 0 && y != 0 && p->at >= 0 && p->at <= p->of - p->size ? POET_OK : POET_E_ARGUMENT;
}

int poet_matmul_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    return read_planes(params, sizes);
}

int poet_matmul_rows_run(const poet_op_args *args)
{
    const poet_matmul_rows_params *p = (const poet_matmul_rows_params *)args->params;
    const poet_product product = {.m = 1, .k = p->k, .n = p->size, .a_k = 1, .c_k = p->c * p->of, .c_n = 1};
    const float *w = (const float *)args->inputs[1] + p->at;
    float *y = args->outputs[0];
    for (int32_t c = 0; c < p->c; c++, w += p->of, y += p->size) {
        poet_product_compute(&product, args->inputs[0], w, y);
    }
    return POET_OK;
}

int poet_matmul_accumulate_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    const int status = read_planes(params, sizes);
    const uint32_t sum = sizes->input_bytes[1];
    sizes->inputs = 3;
    sizes->input_bytes[1] = sizes->output_bytes[0];
    sizes->input_bytes[POET_SUM_INPUT] = sizes->output_bytes[0] = sum;
    return status;
}

int poet_matmul_accumulate_rows_run(const poet_op_args *args)
{
    const poet_matmul_accumulate_rows_params *p = (const poet_matmul_accumulate_rows_params *)args->params;
    const poet_product outer = {.m = p->m, .n = p->size, .a_m = 1, .y_m = p->c * p->of};
    const float *x = args->inputs[1];
    float *sum = poet_sum_so_far(args, p->m * p->c * p->of) + p->at;
    for (int32_t c = 0; c < p->c; c++, x += p->size, sum += p->of) {
        poet_outer_add(&outer, args->inputs[0], x, sum, sum);
    }
    return POET_OK;
}

int poet_linear_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_linear_rows_params *p = (const poet_linear_rows_params *)params;
    const uint32_t x = poet_count(p->k, 1, 1, 1), w = poet_count(p->n, p->of, 1, 1), y = 4 * (uint32_t)p->n;
    *sizes = (poet_sizes){.inputs = p->bias ? 4 : 3,
                          .outputs = 1,
                          .input_bytes = {4 * x, 4 * w, y, p->bias ? y : 0},
                          .output_bytes = {y}};
    return x != 0 && w != 0 && (p->bias & ~1) == 0 && p->at >= 0 && p->at <= p->of - p->k ? POET_OK : POET_E_ARGUMENT;
}

int poet_linear_rows_run(const poet_op_args *args)
{
    const poet_linear_rows_params *p = (const poet_linear_rows_params *)args->params;
    const poet_product product = {
        .m = 1, .k = p->k, .n = p->n, .a_m = p->k, .a_k = 1, .c_k = 1, .c_n = p->of, .y_m = p->n};
    float *y = poet_sum_so_far(args, p->n);
    poet_product_add(&product, args->inputs[0], (const float *)args->inputs[1] + p->at, y);
    const float *const b = p->bias ? args->inputs[3] : NULL;
    for (int32_t n = 0; p->bias && n < p->n; n++) {
        y[n] += b[n];
    }
    return POET_OK;
}
