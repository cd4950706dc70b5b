/* SPDX-License-Identifier: Apache-2.0 */
/* A band of a maximum over windows without padding, and of its gradient: x is a band with planes of its own, y and the
 * places are rows of planes that are written band by band. Bytes begin where a parameter says: a word is of four. */
#include "poet/operator.h"

#include "../kernels/pool.h"

/* One plane of the band, as the pooling of a tensor. */
typedef struct band {
    int32_t params[sizeof(poet_max_pool2d_params) / sizeof(int32_t)];
    poet_pool pool;
    int32_t planes, of, of_places, first;
    uint32_t x_bytes, y_bytes, place_bytes;
} band;

static int read_band(const poet_max_pool2d_backward_rows_params *p, band *b)
{
    *b = (band){
        .params = {1, 1, p->h, p->w, p->r, p->s, p->sh, p->sw, 0, 0},
        .planes = p->c,
        .first = p->first,
    };
    const int status = poet_pool_read(b->params, &b->pool);
    const poet_windows *win = &b->pool.windows;
    if (status != POET_OK || poet_count(p->r, p->s, 1, 1) > 256 || p->first < 0) {
        return POET_E_ARGUMENT;
    }
    b->of = p->of * win->ow;
    b->of_places = p->of_places * win->ow;
    b->x_bytes = 4 * poet_count(p->c, p->h, p->w, 1);
    b->y_bytes = poet_band_bytes(p->c, p->of, win->oh, win->ow);
    b->place_bytes = poet_band_bytes(p->c, p->of_places, win->oh, win->ow) / 4u;
    if (b->x_bytes == 0 || b->y_bytes == 0 || b->place_bytes == 0 || (uint32_t)p->first > b->x_bytes) {
        return POET_E_ARGUMENT;
    }
    b->place_bytes += (uint32_t)p->first;
    return POET_OK;
}

static int read_forward(const int32_t *params, band *b)
{
    const poet_max_pool2d_rows_params *p = (const poet_max_pool2d_rows_params *)params;
    const poet_max_pool2d_backward_rows_params back = {p->c,  p->h,  p->w,  p->r,  p->s,
                                                       p->sh, p->sw, p->of, p->of, p->first};
    return read_band(&back, b);
}

int poet_max_pool2d_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    band b;
    const int status = read_forward(params, &b);
    *sizes =
        (poet_sizes){.inputs = 1, .outputs = 2, .input_bytes = {b.x_bytes}, .output_bytes = {b.y_bytes, b.place_bytes}};
    return status;
}

int poet_max_pool2d_rows_run(const poet_op_args *args)
{
    band b;
    const int status = read_forward(args->params, &b);
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    uint8_t *places = (uint8_t *)args->outputs[1] + b.first;
    for (int32_t plane = 0; status == POET_OK && plane < b.planes; plane++) {
        const void *const in[] = {x};
        void *const out[] = {y, places};
        (void)poet_max_pool2d_run(&(poet_op_args){.params = b.params, .inputs = in, .outputs = out});
        x += b.pool.x_count;
        y += b.of;
        places += b.of_places;
    }
    return status;
}

int poet_max_pool2d_backward_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    band b;
    const int status = read_band((const poet_max_pool2d_backward_rows_params *)params, &b);
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {b.y_bytes, b.place_bytes},
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
    const int status = read_band((const poet_max_pool2d_backward_rows_params *)args->params, &b);
    const float *gy = args->inputs[0];
    const uint8_t *places = (const uint8_t *)args->inputs[1] + b.first;
    float *gx = args->outputs[0];
    for (int32_t plane = 0; status == POET_OK && plane < b.planes; plane++) {
        const void *const in[] = {gy, places};
        void *const out[] = {gx};
        (void)poet_max_pool2d_backward_run(&(poet_op_args){.params = b.params, .inputs = in, .outputs = out});
        gx += b.pool.x_count;
        gy += b.of;
        places += b.of_places;
    }
    return status;
}
