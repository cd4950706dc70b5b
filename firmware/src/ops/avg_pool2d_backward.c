/* SPDX-License-Identifier: Apache-2.0 */
/* Spreads each gradient evenly over its window; windows that overlap add up, in the order of positions. */
#include "../kernels/pool.h"

int poet_avg_pool2d_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_reversed(poet_avg_pool2d_sizes(params, sizes), sizes);
}

int poet_avg_pool2d_backward_run(const poet_op_args *args)
{
    poet_pool pool;
    const int status = poet_pool_read(args->params, &pool);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &pool.windows;
    const float places = (float)(win->r * win->s);
    const float *gy = args->inputs[0];
    float *gx = args->outputs[0];
    for (uint32_t i = 0; i < pool.x_count; i++) {
        gx[i] = 0.0f;
    }
    for (int32_t plane = 0; plane < pool.planes; plane++, gx += win->h * win->w) {
        for (int32_t oy = 0; oy < win->oh; oy++) {
            const int32_t top = oy * win->sh - win->ph;
            const poet_span rows = poet_span_inside(top, win->r, win->h);
            for (int32_t ox = 0; ox < win->ow; ox++) {
                const int32_t left = ox * win->sw - win->pw;
                const poet_span columns = poet_span_inside(left, win->s, win->w);
                const float share = *gy++ / places;
                for (int32_t r = rows.first; r < rows.end; r++) {
                    for (int32_t s = columns.first; s < columns.end; s++) {
                        gx[(top + r) * win->w + left + s] += share;
                    }
                }
            }
        }
    }
    return POET_OK;
}
