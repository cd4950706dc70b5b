/* SPDX-License-Identifier: Apache-2.0 */
/* Sends each gradient to the element that was the maximum; windows that overlap add up, in the order of positions. */
#include "../kernels/pool.h"

int poet_max_pool2d_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_pool pool;
    if (poet_pool_read(params, &pool) != POET_OK || poet_count(pool.windows.r, pool.windows.s, 1, 1) > 256) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {4 * pool.y_count, pool.y_count},
        .output_bytes = {4 * pool.x_count},
        .index_input = 1,
        .index_bytes = 1,
        .index_bound = (uint32_t)(pool.windows.r * pool.windows.s),
    };
    return POET_OK;
}

int poet_max_pool2d_backward_run(const poet_op_args *args)
{
    poet_pool pool;
    const int status = poet_pool_read(args->params, &pool);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &pool.windows;
    const float *gy = args->inputs[0];
    const uint8_t *indices = args->inputs[1];
    float *gx = args->outputs[0];
    for (uint32_t i = 0; i < pool.x_count; i++) {
        gx[i] = 0.0f;
    }
    for (int32_t plane = 0; plane < pool.planes; plane++, gx += win->h * win->w) {
        for (int32_t oy = 0; oy < win->oh; oy++) {
            for (int32_t ox = 0; ox < win->ow; ox++) {
                const int32_t place = *indices++; /* outside of gx if max_pool2d did not write it */
                const int32_t row = oy * win->sh - win->ph + place / win->s;
                const int32_t column = ox * win->sw - win->pw + place % win->s;
                if (row >= 0 && row < win->h && column >= 0 && column < win->w) {
                    gx[row * win->w + column] += *gy;
                }
                gy++;
            }
        }
    }
    return POET_OK;
}
