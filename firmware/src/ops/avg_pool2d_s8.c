/* SPDX-License-Identifier: Apache-2.0 */
/* Mean over windows of int8; padding counts as zero does. The scale has the number of places in it. */
#include "../kernels/mathematics.h"
#include "../kernels/pool.h"
#include "../kernels/s8.h"

static poet_range_s8 range_of(const poet_avg_pool2d_s8_params *p)
{
    return (poet_range_s8){p->zero_y, p->low, p->high};
}

int poet_avg_pool2d_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_avg_pool2d_s8_params *p = (const poet_avg_pool2d_s8_params *)params;
    const poet_range_s8 range = range_of(p);
    poet_pool pool;
    if (poet_pool_read(params, &pool) != POET_OK || !poet_is_s8(p->zero_x) || !poet_range_s8_is_sound(&range) ||
        !poet_is_scale(p->scale_f32)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 1, .outputs = 1, .input_bytes = {pool.x_count}, .output_bytes = {pool.y_count}, .s8 = 1u};
    return POET_OK;
}

static int32_t sum_of_window(const poet_windows *win, const int8_t *x, int32_t zero, int32_t top, int32_t left)
{
    const poet_span rows = poet_span_inside(top, win->r, win->h);
    const poet_span columns = poet_span_inside(left, win->s, win->w);
    int32_t sum = -zero * (rows.end - rows.first) * (columns.end - columns.first);
    for (int32_t r = rows.first; r < rows.end; r++) {
        for (int32_t s = columns.first; s < columns.end; s++) {
            sum += x[(top + r) * win->w + left + s];
        }
    }
    return sum;
}

int poet_avg_pool2d_s8_run(const poet_op_args *args)
{
    const poet_avg_pool2d_s8_params *p = (const poet_avg_pool2d_s8_params *)args->params;
    poet_pool pool;
    const int status = poet_pool_read(args->params, &pool);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &pool.windows;
    const poet_range_s8 range = range_of(p);
    const poet_scale_s8 by = poet_scale_s8_of(poet_from_bits(p->scale_f32));
    const int8_t *x = args->inputs[0];
    int8_t *y = args->outputs[0];
    for (int32_t plane = 0; plane < pool.planes; plane++, x += win->h * win->w) {
        for (int32_t oy = 0; oy < win->oh; oy++) {
            for (int32_t ox = 0; ox < win->ow; ox++) {
                const int32_t sum = sum_of_window(win, x, p->zero_x, oy * win->sh - win->ph, ox * win->sw - win->pw);
                *y++ = poet_result_s8(sum, &by, &range);
            }
        }
    }
    return POET_OK;
}
