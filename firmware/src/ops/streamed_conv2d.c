/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution whose weights are read from the card, some output channels at a time; and the same added to a sum so
 * far. */
#include <stddef.h>

#include "../kernels/convolution.h"
#include "../kernels/stream.h"
#include "../kernels/winograd.h"
#include "sum_so_far.h"

int poet_streamed_conv2d_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_streamed_conv2d_params *p = (const poet_streamed_conv2d_params *)params;
    poet_conv conv;
    int status = poet_conv_read(params, &conv);
    if (status != POET_OK || !poet_stream_suits(p->k, conv.taps, p->tile)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = conv.bias ? 3 : 2,
        .outputs = 1,
        .input_bytes = {conv.x_bytes, conv.w_bytes, conv.bias ? conv.b_bytes : 0},
        .output_bytes = {conv.y_bytes},
        .kept = POET_KEPT_INPUT,
        .kept_input = 1,
    };
    status = poet_convolution_workspace(&conv, &sizes->workspace_bytes);
    sizes->workspace_bytes += (uint32_t)(p->tile * conv.taps) * (uint32_t)sizeof(float);
    return status;
}

int poet_streamed_conv2d_accumulate_sizes(const int32_t *params, poet_sizes *sizes)
{
    const int status = poet_streamed_conv2d_sizes(params, sizes);
    if (status != POET_OK || sizes->inputs != 2) { /* as in conv2d.c */
        return POET_E_ARGUMENT;
    }
    return poet_sizes_accumulate(status, sizes);
}

/* The workspace: a tile of weights, the rows of the input. */
static int run(const poet_op_args *args, bool adds)
{
    const poet_streamed_conv2d_params *p = (const poet_streamed_conv2d_params *)args->params;
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    float *tile = args->workspace;
    float *rows = tile + p->tile * conv.taps;
    float *y = adds ? poet_sum_so_far(args, (int32_t)(conv.y_bytes / sizeof(float))) : args->outputs[0];
    const int32_t together = conv.winograd ? POET_WINOGRAD_TOGETHER : 1;
    poet_stream weights = poet_stream_begin(args, 1, p->k, conv.taps, p->tile, together, tile);
    while (poet_stream_next(&weights)) {
        if (adds) {
            poet_convolution_add(&conv, weights.first, weights.count, args->inputs[0], weights.data, rows, y);
        } else {
            poet_convolution(&conv, weights.first, weights.count, args->inputs[0], weights.data,
                             conv.bias ? args->inputs[2] : NULL, rows, y);
        }
    }
    return weights.status;
}

int poet_streamed_conv2d_run(const poet_op_args *args)
{
    return run(args, false);
}

int poet_streamed_conv2d_accumulate_run(const poet_op_args *args)
{
    return run(args, true);
}
