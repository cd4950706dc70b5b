/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a convolution by its input, with weights that are read from the card, some output channels at a
 * time; and the same added to a sum so far. */
#include "../kernels/input_gradient.h"
#include "../kernels/stream.h"
#include "../kernels/winograd.h"
#include "sum_so_far.h"

/* Output channels are summed in parts, which no tile may split. */
static int32_t channels_together(const poet_conv *conv)
{
    return conv->winograd ? POET_WINOGRAD_PART : 1;
}

int poet_streamed_conv2d_backward_input_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_streamed_conv2d_backward_input_params *p = (const poet_streamed_conv2d_backward_input_params *)params;
    poet_conv conv;
    int status = poet_conv_read(params, &conv);
    if (status != POET_OK || !poet_stream_suits(p->k, conv.taps, p->tile) ||
        (p->tile < p->k && p->tile % channels_together(&conv) != 0)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {conv.y_bytes, conv.w_bytes},
        .output_bytes = {conv.x_bytes},
        .kept = POET_KEPT_INPUT,
        .kept_input = 1,
    };
    status = poet_input_gradient_workspace(&conv, p->tile, &sizes->workspace_bytes);
    sizes->workspace_bytes += (uint32_t)(p->tile * conv.taps) * (uint32_t)sizeof(float);
    return status;
}

int poet_streamed_conv2d_backward_input_accumulate_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_accumulate(poet_streamed_conv2d_backward_input_sizes(params, sizes), sizes);
}

/* The workspace: a tile of weights, the rows of gy. */
static int run(const poet_op_args *args, bool adds)
{
    const poet_streamed_conv2d_backward_input_params *p =
        (const poet_streamed_conv2d_backward_input_params *)args->params;
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    float *tile = args->workspace;
    float *gx = adds ? poet_sum_so_far(args, (int32_t)(conv.x_bytes / sizeof(float))) : args->outputs[0];
    poet_stream weights = poet_stream_begin(args, 1, p->k, conv.taps, p->tile, channels_together(&conv), tile);
    while (poet_stream_next(&weights)) {
        float *rows = tile + p->tile * conv.taps;
        if (adds) {
            poet_input_gradient_add(&conv, weights.first, weights.count, args->inputs[0], weights.data, rows, gx);
        } else {
            poet_input_gradient_part(&conv, weights.first, weights.count, args->inputs[0], weights.data, rows, gx);
        }
    }
    return weights.status;
}

int poet_streamed_conv2d_backward_input_run(const poet_op_args *args)
{
    return run(args, false);
}

int poet_streamed_conv2d_backward_input_accumulate_run(const poet_op_args *args)
{
    return run(args, true);
}
