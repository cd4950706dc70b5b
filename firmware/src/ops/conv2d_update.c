/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent on the kept weights and bias of a convolution, some output channels at a time. */
#include "update.h"
#include "weight_gradient.h"

static int32_t out_channels_of(const poet_conv *conv)
{
    return conv->groups * conv->out_channels;
}

int poet_conv2d_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_conv2d_update_params *p = (const poet_conv2d_update_params *)params;
    poet_conv conv;
    int status = poet_conv_read(params, &conv);
    if (status == POET_OK && (p->tile < 1 || p->tile > out_channels_of(&conv))) {
        status = POET_E_ARGUMENT;
    }
    if (status != POET_OK) {
        return status;
    }
    const uint32_t b = conv.bias ? conv.b_bytes : 0;
    *sizes = (poet_sizes){
        .inputs = conv.bias ? 4 : 3,
        .outputs = conv.bias ? 2 : 1,
        .input_bytes = {conv.y_bytes, conv.x_bytes, conv.w_bytes, b},
        .output_bytes = {conv.w_bytes, b},
        .kept = POET_KEPT_OUTPUTS,
    };
    status = poet_weight_gradient_workspace(&conv, &sizes->workspace_bytes);
    sizes->workspace_bytes += POET_UPDATE_BUFFER_BYTES + 4 * (uint32_t)p->tile * (uint32_t)conv.taps;
    return status;
}

/* The workspace: a block that is not full yet, a tile of gradients, the rows of the input. */
int poet_conv2d_update_run(const poet_op_args *args)
{
    const poet_conv2d_update_params *p = (const poet_conv2d_update_params *)args->params;
    poet_conv conv;
    int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const int32_t out_channels = out_channels_of(&conv);
    const float *gy = args->inputs[0];
    float *tile = (float *)args->workspace + POET_UPDATE_BUFFER_BYTES / sizeof(float);
    float *rows = tile + p->tile * conv.taps;
    poet_update weights = poet_update_begin(args, 0, args->inputs[2]);
    for (int32_t k = 0; k < out_channels; k += p->tile) {
        const int32_t count = out_channels - k < p->tile ? out_channels - k : p->tile;
        poet_weight_gradient(&conv, k, count, gy, args->inputs[1], rows, tile);
        poet_update_tile(&weights, tile, count * conv.taps);
    }
    status = poet_update_end(&weights);
    if (status != POET_OK || !conv.bias) {
        return status;
    }
    poet_update bias = poet_update_begin(args, 1, args->inputs[3]);
    for (int32_t k = 0; k < out_channels; k++) {
        *tile = poet_bias_gradient(&conv, k, gy);
        poet_update_tile(&bias, tile, 1);
    }
    return poet_update_end(&bias);
}
