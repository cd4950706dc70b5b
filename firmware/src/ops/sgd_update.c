/* SPDX-License-Identifier: Apache-2.0 */
/* A step of the optimiser on a kept tensor whose gradient is given. What it was is a value, or read from the card. */
#include <string.h>

#include "../kernels/shape.h"
#include "../kernels/stream.h"
#include "../kernels/update.h"

static const poet_descent *descent_of(const int32_t *params)
{
    return (const poet_descent *)&((const poet_sgd_update_params *)params)->momentum_nano;
}

static int sizes_of(const int32_t *params, bool streamed, poet_sizes *sizes)
{
    const poet_sgd_update_params *p = (const poet_sgd_update_params *)params;
    const bool is_tile = p->tile >= 1 && p->tile <= p->size && (!streamed || poet_stream_suits(p->size, 1, p->tile));
    const int status = is_tile ? poet_sizes_read("a,a>a", params, sizes) : POET_E_ARGUMENT;
    if (status == POET_OK) {
        sizes->kept = streamed ? POET_KEPT_OUTPUTS | POET_KEPT_INPUT : POET_KEPT_OUTPUTS;
        sizes->kept_input = streamed;
        sizes->workspace_bytes = POET_UPDATE_BUFFER_BYTES + (streamed ? 8u : 4u) * (uint32_t)p->tile;
    }
    return poet_update_add_states(status, descent_of(params), p->size, p->tile, sizes);
}

int poet_sgd_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    return sizes_of(params, false, sizes);
}

int poet_streamed_sgd_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    return sizes_of(params, true, sizes);
}

static int run(const poet_op_args *args, bool streamed)
{
    const poet_sgd_update_params *p = (const poet_sgd_update_params *)args->params;
    const float *gradient = args->inputs[0];
    float *tile = (float *)args->workspace + POET_UPDATE_BUFFER_BYTES / sizeof(float);
    float *present = tile + p->tile;
    float *states = streamed ? present + p->tile : present;
    poet_update update = poet_update_begin(args, descent_of(args->params), 1, 1, 0, streamed, states);
    int status = POET_OK;
    for (int32_t i = 0; i < p->size; i += p->tile) {
        const int32_t count = p->size - i < p->tile ? p->size - i : p->tile;
        if (streamed) {
            status = poet_stream_start_read(args, 1, i, count, present);
        }
        memcpy(tile, gradient + i, sizeof *tile * (size_t)count);
        if (streamed && status == POET_OK) {
            update.weights = poet_stream_finish_read(args, 1, i, present, &status);
        }
        if (status != POET_OK) {
            return status;
        }
        poet_update_tile(&update, tile, count, i + count == p->size);
    }
    return poet_update_end(&update);
}

int poet_sgd_update_run(const poet_op_args *args)
{
    return run(args, false);
}

int poet_streamed_sgd_update_run(const poet_op_args *args)
{
    return run(args, true);
}
