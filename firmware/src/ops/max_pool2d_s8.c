/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum over windows of int8; padding never counts. */
#include "../kernels/pool.h"

int poet_max_pool2d_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_pool pool;
    const int status = poet_pool_read(params, &pool);
    if (status == POET_OK) {
        *sizes = (poet_sizes){
            .inputs = 1, .outputs = 1, .input_bytes = {pool.x_count}, .output_bytes = {pool.y_count}, .s8 = 1u};
    }
    return status;
}

static inline int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Windows of 2x2 that lie side by side. */
static void pool_by_fours(const poet_windows *win, const int8_t *x, int8_t *y)
{
    for (int32_t oy = 0; oy < win->oh; oy++, x += 2 * win->w) {
        const int8_t *below = x + win->w;
        for (int32_t i = 0; i < 2 * win->ow; i += 2) {
            *y++ = (int8_t)larger(larger(x[i], x[i + 1]), larger(below[i], below[i + 1]));
        }
    }
}

static void pool_windows(const poet_windows *win, const int8_t *x, int8_t *y)
{
    for (int32_t oy = 0; oy < win->oh; oy++) {
        const int32_t top = oy * win->sh - win->ph;
        const poet_span rows = poet_span_inside(top, win->r, win->h);
        for (int32_t ox = 0; ox < win->ow; ox++) {
            const int32_t left = ox * win->sw - win->pw;
            const poet_span columns = poet_span_inside(left, win->s, win->w);
            int32_t most = INT8_MIN;
            for (int32_t r = rows.first; r < rows.end; r++) {
                for (int32_t s = columns.first; s < columns.end; s++) {
                    most = larger(most, x[(top + r) * win->w + left + s]);
                }
            }
            *y++ = (int8_t)most;
        }
    }
}

int poet_max_pool2d_s8_run(const poet_op_args *args)
{
    poet_pool pool;
    const int status = poet_pool_read(args->params, &pool);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &pool.windows;
    const bool fours = win->r == 2 && win->s == 2 && win->sh == 2 && win->sw == 2 && win->ph == 0 && win->pw == 0;
    const int8_t *x = args->inputs[0];
    int8_t *y = args->outputs[0];
    for (int32_t plane = 0; plane < pool.planes; plane++, x += win->h * win->w, y += win->oh * win->ow) {
        (fours ? pool_by_fours : pool_windows)(win, x, y);
    }
    return POET_OK;
}
