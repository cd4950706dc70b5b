/* SPDX-License-Identifier: Apache-2.0 */
/* A step of the optimiser on a kept tensor whose gradient is given. */
#include <string.h>

#include "../kernels/shape.h"
#include "../kernels/update.h"

static const poet_descent *descent_of(const int32_t *params)
{
    return (const poet_descent *)&((const poet_sgd_update_params *)params)->momentum_nano;
}

int poet_sgd_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_sgd_update_params *p = (const poet_sgd_update_params *)params;
    const int status = p->tile < 1 || p->tile > p->size ? POET_E_ARGUMENT : poet_elementwise_sizes(p->size, 2, sizes);
    if (status == POET_OK) {
        sizes->kept = POET_KEPT_OUTPUTS;
        sizes->workspace_bytes = POET_UPDATE_BUFFER_BYTES + 4u * (uint32_t)p->tile;
    }
    return poet_update_add_states(status, descent_of(params), p->size, p->tile, sizes);
}

int poet_sgd_update_run(const poet_op_args *args)
{
    const poet_sgd_update_params *p = (const poet_sgd_update_params *)args->params;
    const float *gradient = args->inputs[0];
    float *tile = (float *)args->workspace + POET_UPDATE_BUFFER_BYTES / sizeof(float);
    poet_update update = poet_update_begin(args, descent_of(args->params), 1, 1, 0, false, tile + p->tile);
    for (int32_t i = 0; i < p->size; i += p->tile) {
        const int32_t count = p->size - i < p->tile ? p->size - i : p->tile;
        memcpy(tile, gradient + i, sizeof *tile * (size_t)count);
        poet_update_tile(&update, tile, count);
    }
    return poet_update_end(&update);
}
