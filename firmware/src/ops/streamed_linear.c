/* SPDX-License-Identifier: Apache-2.0 */
/* A linear layer, y[m,n] = sum over k of x[m,k] * w[n,k], plus b[n], and its gradient by the input,
 * gx[m,k] = sum over n of gy[m,n] * w[n,k]; the weights are read from the card, some rows at a time. And both added to
 * a sum so far. */
#include "../kernels/product.h"
#include "../kernels/shape.h"
#include "../kernels/stream.h"
#include "sum_so_far.h"

static int sizes_of(const char *tensors, const int32_t *params, int32_t tile, poet_sizes *sizes)
{
    const poet_streamed_linear_params *p = (const poet_streamed_linear_params *)params;
    const int status = poet_sizes_read(tensors, params, sizes);
    if (status != POET_OK || !poet_stream_suits(p->n, p->k, tile)) {
        return POET_E_ARGUMENT;
    }
    sizes->workspace_bytes = 4 * (uint32_t)(tile * p->k);
    sizes->kept = POET_KEPT_INPUT;
    sizes->kept_input = 1;
    return POET_OK;
}

int poet_streamed_linear_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_streamed_linear_params *p = (const poet_streamed_linear_params *)params;
    return sizes_of("ab,cb,d?c>ac", params, p->tile, sizes);
}

int poet_streamed_linear_accumulate_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_accumulate(poet_streamed_linear_sizes(params, sizes), sizes);
}

static int forward(const poet_op_args *args, bool adds)
{
    const poet_streamed_linear_params *p = (const poet_streamed_linear_params *)args->params;
    float *sums = adds ? poet_sum_so_far(args, p->m * p->n) : args->outputs[0];
    poet_stream weights = poet_stream_begin(args, 1, p->n, p->k, p->tile, 1, args->workspace);
    while (poet_stream_next(&weights)) {
        const poet_product product = {
            .m = p->m, .k = p->k, .n = weights.count, .a_m = p->k, .a_k = 1, .c_k = 1, .c_n = p->k, .y_m = p->n};
        float *y = sums + weights.first;
        if (adds) {
            poet_product_add(&product, args->inputs[0], weights.data, y);
        } else {
            poet_product_compute(&product, args->inputs[0], weights.data, y);
        }
        for (int32_t m = 0; p->bias && m < p->m; m++) {
            const float *bias = (const float *)args->inputs[adds ? 3 : 2] + weights.first;
            for (int32_t n = 0; n < weights.count; n++) {
                y[m * p->n + n] += bias[n];
            }
        }
    }
    return weights.status;
}

int poet_streamed_linear_run(const poet_op_args *args)
{
    return forward(args, false);
}

int poet_streamed_linear_accumulate_run(const poet_op_args *args)
{
    return forward(args, true);
}

int poet_streamed_linear_backward_input_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_streamed_linear_backward_input_params *p = (const poet_streamed_linear_backward_input_params *)params;
    return sizes_of("ac,cb>ab", params, p->tile, sizes);
}

int poet_streamed_linear_backward_input_accumulate_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_accumulate(poet_streamed_linear_backward_input_sizes(params, sizes), sizes);
}

static int backward_input(const poet_op_args *args, bool adds)
{
    const poet_streamed_linear_backward_input_params *p =
        (const poet_streamed_linear_backward_input_params *)args->params;
    float *gx = adds ? poet_sum_so_far(args, p->m * p->k) : args->outputs[0];
    poet_stream weights = poet_stream_begin(args, 1, p->n, p->k, p->tile, 1, args->workspace);
    while (poet_stream_next(&weights)) {
        const poet_product product = {
            .m = p->m, .k = weights.count, .n = p->k, .a_m = p->n, .a_k = 1, .c_k = p->k, .c_n = 1, .y_m = p->k};
        const float *gy = (const float *)args->inputs[0] + weights.first;
        if (weights.first == 0 && !adds) {
            poet_product_compute(&product, gy, weights.data, gx);
        } else {
            poet_product_add(&product, gy, weights.data, gx);
        }
    }
    return weights.status;
}

int poet_streamed_linear_backward_input_run(const poet_op_args *args)
{
    return backward_input(args, false);
}

int poet_streamed_linear_backward_input_accumulate_run(const poet_op_args *args)
{
    return backward_input(args, true);
}
