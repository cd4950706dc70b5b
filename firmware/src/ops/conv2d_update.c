/* SPDX-License-Identifier: Apache-2.0 */
/* A step of the optimiser on the kept weights and bias of a convolution, some output channels at a time. The present
 * weights are a value, or read from the card as well. */
#include <stddef.h>

#include "../kernels/stream.h"
#include "../kernels/update.h"
#include "../kernels/weight_gradient.h"

static int32_t out_channels_of(const poet_conv *conv)
{
    return conv->groups * conv->out_channels;
}

static const poet_descent *descent_of(const int32_t *params)
{
    return (const poet_descent *)&((const poet_conv2d_update_params *)params)->momentum_nano;
}

static int sizes_of(const int32_t *params, bool streamed, poet_sizes *sizes)
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
    if (status == POET_OK && streamed) {
        sizes->kept |= POET_KEPT_INPUT;
        sizes->kept_input = 2;
        sizes->workspace_bytes += 4 * (uint32_t)(p->tile * conv.taps);
        status = poet_stream_suits(p->k, conv.taps, p->tile) ? POET_OK : POET_E_ARGUMENT;
    }
    return poet_update_add_states(status, descent_of(params), p->k, p->tile, sizes);
}

int poet_conv2d_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    return sizes_of(params, false, sizes);
}

int poet_streamed_conv2d_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    return sizes_of(params, true, sizes);
}

/* `present` is where to read a tile of present weights; NULL: they are a value. They arrive while their gradient is
 * computed. */
static int update_weights(const poet_op_args *args, const poet_conv *conv, int32_t tile_rows, float *present,
                          float *gradient, float *states, float *rows, const poet_descent *descent)
{
    const int32_t out_channels = out_channels_of(conv);
    poet_update update = poet_update_begin(args, descent, 2, conv->bias ? 2u : 1u, 0, present != NULL, states);
    for (int32_t k = 0; k < out_channels; k += tile_rows) {
        const int32_t count = out_channels - k < tile_rows ? out_channels - k : tile_rows;
        int status = POET_OK;
        if (present != NULL) {
            status = poet_stream_start_read(args, 2, k * conv->taps, count * conv->taps, present);
        }
        if (status == POET_OK) {
            poet_weight_gradient(conv, k, count, args->inputs[0], args->inputs[1], rows, gradient);
        }
        if (status == POET_OK && present != NULL) {
            update.weights = poet_stream_finish_read(args, 2, k * conv->taps, present, &status);
        }
        if (status != POET_OK) {
            return status;
        }
        poet_update_tile(&update, gradient, count * conv->taps, k + count == out_channels);
    }
    return poet_update_end(&update);
}

/* Its stack is not there while gradients of weights are made. */
__attribute__((noinline)) static int update_bias(const poet_op_args *args, const poet_conv *conv, float *gradient,
                                                 float *states, const poet_descent *descent)
{
    poet_update update = poet_update_begin(args, descent, 2, 2, 1, false, states);
    for (int32_t k = 0; k < out_channels_of(conv); k++) {
        *gradient = poet_bias_gradient(conv, k, args->inputs[0], 0.0f);
        poet_update_tile(&update, gradient, 1, k + 1 == out_channels_of(conv));
    }
    return poet_update_end(&update);
}

/* The workspace: a block that is not full yet, a tile of gradients, states, present weights, the rows of the input. */
static int run(const poet_op_args *args, bool streamed)
{
    const poet_descent *descent = descent_of(args->params);
    poet_conv conv;
    int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const int32_t tile_rows = ((const poet_conv2d_update_params *)args->params)->tile;
    const int32_t tile = tile_rows * conv.taps;
    float *gradient = (float *)args->workspace + POET_UPDATE_BUFFER_BYTES / sizeof(float);
    float *states = gradient + tile;
    float *behind = states + poet_update_state_bytes(descent, 4u * (uint32_t)tile) / sizeof(float);
    status = streamed ? update_weights(args, &conv, tile_rows, behind, gradient, states, behind + tile, descent)
                      : update_weights(args, &conv, tile_rows, NULL, gradient, states, behind, descent);
    return status != POET_OK || !conv.bias ? status : update_bias(args, &conv, gradient, states, descent);
}

int poet_conv2d_update_run(const poet_op_args *args)
{
    return run(args, false);
}

int poet_streamed_conv2d_update_run(const poet_op_args *args)
{
    return run(args, true);
}
