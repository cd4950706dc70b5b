/* SPDX-License-Identifier: Apache-2.0 */
/* Mean over windows; zeros of the padding count. */
#include "../kernels/pool.h"

int poet_avg_pool2d_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_pool pool;
    const int status = poet_pool_read(params, &pool);
    if (status == POET_OK) {
        *sizes = (poet_sizes){
            .inputs = 1, .outputs = 1, .input_bytes = {4 * pool.x_count}, .output_bytes = {4 * pool.y_count}};
    }
    return status;
}

int poet_avg_pool2d_run(const poet_op_args *args)
{
    poet_pool pool;
    const int status = poet_pool_read(args->params, &pool);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &pool.windows;
    const float places = (float)(win->r * win->s);
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t plane = 0; plane < pool.planes; plane++, x += win->h * win->w) {
        for (int32_t oy = 0; oy < win->oh; oy++) {
            const int32_t top = oy * win->sh - win->ph;
            const poet_span rows = poet_span_inside(top, win->r, win->h);
            for (int32_t ox = 0; ox < win->ow; ox++) {
                const int32_t left = ox * win->sw - win->pw;
                const poet_span columns = poet_span_inside(left, win->s, win->w);
                float sum = 0.0f;
                for (int32_t r = rows.first; r < rows.end; r++) {
                    for (int32_t s = columns.first; s < columns.end; s++) {
                        sum += x[(top + r) * win->w + left + s];
                    }
                }
                *y++ = sum / places;
            }
        }
    }
    return POET_OK;
}
