/* SPDX-License-Identifier: Apache-2.0 */
/* A band of a maximum over windows without padding, and of its gradient: x is a band, y and the places are whole. */
#include <stdbool.h>
#include <string.h>

#include "../kernels/pool.h"
#include "poet/operator.h"

/* One plane of the band, as the pooling of a tensor, and where its results begin in the whole. */
typedef struct band {
    int32_t params[sizeof(poet_max_pool2d_params) / sizeof(int32_t)];
    poet_pool pool;
    int32_t planes, plane, first;
    uint32_t x_bytes, y_bytes;
} band;

static int read_band(const int32_t *params, band *b)
{
    const poet_max_pool2d_rows_params *p = (const poet_max_pool2d_rows_params *)params;
    *b = (band){.params = {1, 1, p->h, p->w, p->r, p->s, p->sh, p->sw, 0, 0}, .planes = p->c};
    const int status = poet_pool_read(b->params, &b->pool);
    const poet_windows *win = &b->pool.windows;
    const uint32_t places = poet_count(p->r, p->s, 1, 1);
    if (status != POET_OK || places > 256 || p->of < 1 || p->at < 0 || p->at > p->of - win->oh) {
        return POET_E_ARGUMENT;
    }
    b->plane = p->of * win->ow;
    b->first = p->at * win->ow;
    b->x_bytes = 4 * poet_count(p->c, p->h, p->w, 1);
    b->y_bytes = 4 * poet_count(p->c, p->of, win->ow, 1);
    return b->x_bytes != 0 && b->y_bytes != 0 ? POET_OK : POET_E_ARGUMENT;
}

int poet_max_pool2d_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    band b;
    const int status = read_band(params, &b);
    *sizes = (poet_sizes){
        .inputs = 3,
        .outputs = 2,
        .input_bytes = {b.x_bytes, b.y_bytes, b.y_bytes / 4u},
        .output_bytes = {b.y_bytes, b.y_bytes / 4u},
    };
    return status;
}

int poet_max_pool2d_rows_run(const poet_op_args *args)
{
    band b;
    const int status = read_band(args->params, &b);
    if (status != POET_OK) {
        return status;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (args->outputs[i] != args->inputs[1 + i]) {
            memcpy(args->outputs[i], args->inputs[1 + i], i == 0 ? b.y_bytes : b.y_bytes / 4u);
        }
    }
    const float *x = args->inputs[0];
    float *y = (float *)args->outputs[0] + b.first;
    uint8_t *places = (uint8_t *)args->outputs[1] + b.first;
    for (int32_t plane = 0; plane < b.planes; plane++, x += b.pool.x_count, y += b.plane, places += b.plane) {
        const void *const in[] = {x};
        void *const out[] = {y, places};
        (void)poet_max_pool2d_run(&(poet_op_args){.params = b.params, .inputs = in, .outputs = out});
    }
    return POET_OK;
}

static bool is_own(const int32_t *params)
{
    return ((const poet_max_pool2d_backward_rows_params *)params)->own != 0;
}

int poet_max_pool2d_backward_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    band b;
    const int status = read_band(params, &b);
    const uint32_t own_bytes = 4u * (uint32_t)(b.planes * b.pool.windows.oh * b.pool.windows.ow);
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {is_own(params) ? own_bytes : b.y_bytes, b.y_bytes / 4u},
        .output_bytes = {b.x_bytes},
        .index_input = 1,
        .index_bytes = 1,
        .index_bound = (uint32_t)(b.pool.windows.r * b.pool.windows.s),
    };
    return status;
}

int poet_max_pool2d_backward_rows_run(const poet_op_args *args)
{
    band b;
    const int status = read_band(args->params, &b);
    const bool own = is_own(args->params);
    const float *gy = (const float *)args->inputs[0] + (own ? 0 : b.first);
    const uint8_t *places = (const uint8_t *)args->inputs[1] + b.first;
    float *gx = args->outputs[0];
    for (int32_t plane = 0; status == POET_OK && plane < b.planes; plane++) {
        const void *const in[] = {gy, places};
        void *const out[] = {gx};
        (void)poet_max_pool2d_backward_run(&(poet_op_args){.params = b.params, .inputs = in, .outputs = out});
        gx += b.pool.x_count;
        gy += own ? b.pool.windows.oh * b.pool.windows.ow : b.plane;
        places += b.plane;
    }
    return status;
}
