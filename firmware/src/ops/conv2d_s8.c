/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of int8. For each row of results, the rows that it needs of every channel are copied with their padding.
 * From them comes a column of two pixels, by which all filters are multiplied. Channels by themselves with 3x3 kernels
 * need no column, and a 1x1 kernel no copies. */
#include "../kernels/products_s8.h"
#include "../kernels/shape.h"

#define KERNEL 3 /* of channels by themselves */
#define ROW_OF_SUMS 64

typedef struct conv_s8 {
    int32_t n, groups;
    int32_t in_channels, out_channels; /* of one group */
    int32_t taps;
    int32_t pointwise, alone;
    int32_t width; /* of a padded row */
    int32_t most;  /* sums of a filter that are held at a time */
    int32_t zero_x;
    uint32_t x_bytes, w_bytes, y_bytes, column_bytes, sum_bytes, row_bytes;
    poet_windows windows;
    poet_range_s8 range;
} conv_s8;

static int read_shape(const poet_conv2d_s8_params *p, conv_s8 *conv)
{
    if (p->g < 1 || p->c < p->g || p->k < p->g || p->c % p->g != 0 || p->k % p->g != 0) {
        return POET_E_ARGUMENT;
    }
    *conv = (conv_s8){
        .n = p->n,
        .groups = p->g,
        .in_channels = p->c / p->g,
        .out_channels = p->k / p->g,
        .zero_x = p->zero_x,
        .windows = {.h = p->h, .w = p->w, .r = p->r, .s = p->s, .sh = p->sh, .sw = p->sw, .ph = p->ph, .pw = p->pw},
        .range = {p->zero_y, p->low, p->high},
    };
    if (!poet_is_s8(p->zero_x) || !poet_range_s8_is_sound(&conv->range) ||
        poet_windows_place(&conv->windows) != POET_OK) {
        return POET_E_ARGUMENT;
    }
    conv->x_bytes = poet_count(p->n, p->c, p->h, p->w);
    conv->w_bytes = poet_count(p->k, conv->in_channels, p->r, p->s);
    conv->y_bytes = poet_count(p->n, p->k, conv->windows.oh, conv->windows.ow);
    return conv->x_bytes == 0 || conv->w_bytes == 0 || conv->y_bytes == 0 ? POET_E_ARGUMENT : POET_OK;
}

/* Of many filters fewer each, so that their sums need about the same memory. */
static int32_t sums_held(const conv_s8 *conv)
{
    const poet_windows *win = &conv->windows;
    const int32_t plane = win->oh * win->ow;
    if (conv->alone) {
        return win->ow > ROW_OF_SUMS ? win->ow : plane < ROW_OF_SUMS ? plane : ROW_OF_SUMS;
    }
    const int32_t most = conv->out_channels <= 64 ? 16 : conv->out_channels <= 128 ? 8 : 4;
    return plane < most ? plane + plane % 2 : most;
}

static int lay_out(conv_s8 *conv)
{
    const poet_windows *win = &conv->windows;
    const uint32_t filters = conv->alone ? 1u : (uint32_t)conv->out_channels;
    const uint32_t held = filters * (uint32_t)(conv->most = sums_held(conv));
    conv->sum_bytes = 4u * (held + 2u);
    conv->width = win->w + 2 * win->pw;
    conv->column_bytes = conv->alone ? 0u : poet_column_bytes((uint32_t)conv->taps);
    const uint32_t rows = poet_count(conv->in_channels, win->r, conv->width, 1);
    conv->row_bytes = conv->pointwise ? 0u : rows + (conv->alone ? 4u : 0u);
    return rows == 0 || poet_count((int32_t)filters, 4, conv->most, 1) == 0 ? POET_E_ARGUMENT : POET_OK;
}

static int read_params(const int32_t *params, conv_s8 *conv)
{
    const int status = read_shape((const poet_conv2d_s8_params *)params, conv);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &conv->windows;
    conv->taps = conv->in_channels * win->r * win->s;
    conv->pointwise = win->r == 1 && win->s == 1 && win->ph == 0 && win->pw == 0 && win->sh == 1 && win->sw == 1;
    conv->alone = conv->in_channels == 1 && win->r == KERNEL && win->s == KERNEL && win->sw <= 2;
    return lay_out(conv);
}

int poet_conv2d_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    conv_s8 conv;
    const int status = read_params(params, &conv);
    if (status == POET_OK) {
        const uint32_t channel_bytes = 4u * (uint32_t)(conv.groups * conv.out_channels);
        *sizes = (poet_sizes){
            .inputs = 4,
            .outputs = 1,
            .input_bytes = {conv.x_bytes, conv.w_bytes, channel_bytes, channel_bytes},
            .output_bytes = {conv.y_bytes},
            .workspace_bytes = conv.column_bytes + conv.sum_bytes + conv.row_bytes,
            .s8 = 1u | 2u,
            .starts = 4u,
            .scales = 8u,
        };
    }
    return status;
}

/* A row of a plane, between its padding. Rows above and below the plane are padding. */
static void copy_row(const conv_s8 *conv, const int8_t *plane, int32_t iy, int8_t *row)
{
    const poet_windows *win = &conv->windows;
    row += win->pw;
    if (iy < 0 || iy >= win->h) {
        memset(row, conv->zero_x, (size_t)win->w);
        return;
    }
    const int8_t *from = plane + iy * win->w;
    int32_t i = 0;
#ifdef __ARM_FEATURE_UNALIGNED
    for (; i + 4 <= win->w; i += 4) {
        memcpy(row + i, from + i, 4);
    }
#endif
    for (; i < win->w; i++) {
        row[i] = from[i];
    }
}

/* One group of one image, or one plane of it: what its filters are, and what they have summed. */
typedef struct group_s8 {
    const int8_t *w;
    const int32_t *start;
    const float *scale;
    int32_t *sums;
    int32_t held;
    int8_t *y; /* of the first filter, where the sums that are held go */
} group_s8;

static void put_results(const conv_s8 *conv, int32_t filters, group_s8 *group)
{
    const int32_t plane = conv->windows.oh * conv->windows.ow;
    for (int32_t k = 0; k < filters && group->held > 0; k++) {
        poet_results_s8(group->sums + k * conv->most, group->held, group->start[k], group->scale[k], &conv->range,
                        group->y + k * plane);
    }
    group->y += group->held;
    group->held = 0;
}

/* One pixel or two, as a column has them. */
static void add_pixels(const conv_s8 *conv, const uint32_t *column, int32_t pixels, group_s8 *group)
{
    poet_products_s8(column, conv->taps, group->w, conv->out_channels, group->sums + group->held, conv->most);
    group->held += pixels;
    if (group->held + 2 > conv->most) {
        put_results(conv, conv->out_channels, group);
    }
}

static void convolve_pointwise(const conv_s8 *conv, const int8_t *x, uint32_t *column, group_s8 *group)
{
    const int32_t plane = conv->windows.h * conv->windows.w;
    for (int32_t at = 0; at < plane; at += 2) {
        const int32_t two = at + 1 < plane;
        poet_column_of_taps(column, x + at, conv->taps, plane, two);
        add_pixels(conv, column, 1 + two, group);
    }
}

static void convolve_windows(const conv_s8 *conv, const int8_t *x, uint32_t *column, int8_t *rows, group_s8 *group)
{
    const poet_windows *win = &conv->windows;
    for (int32_t oy = 0; oy < win->oh; oy++) {
        int8_t *row = rows;
        for (int32_t c = 0; c < conv->in_channels; c++) {
            for (int32_t r = 0; r < win->r; r++, row += conv->width) {
                copy_row(conv, x + c * win->h * win->w, oy * win->sh - win->ph + r, row);
            }
        }
        for (int32_t ox = 0; ox < win->ow; ox += 2) {
            const int32_t two = ox + 1 < win->ow;
            poet_column_of_rows(column, rows + ox * win->sw, conv->in_channels * win->r, win->s, conv->width,
                                two ? win->sw : 0);
            add_pixels(conv, column, 1 + two, group);
        }
    }
}

/* One filter, of one plane. The three rows that a row of results needs move up. */
static void convolve_alone(const conv_s8 *conv, const int8_t *x, int8_t *rows, group_s8 *group)
{
    const poet_windows *win = &conv->windows;
    int8_t *lines[KERNEL] = {rows, rows + conv->width, rows + 2 * conv->width};
    int32_t next = -win->ph;
    for (int32_t oy = 0; oy < win->oh; oy++) {
        for (const int32_t end = oy * win->sh - win->ph + KERNEL; next < end; next++) {
            int8_t *first = lines[0];
            lines[0] = lines[1];
            lines[1] = lines[2];
            lines[2] = first;
            copy_row(conv, x, next, first);
        }
        poet_windows_s8((const int8_t *const *)lines, win->sw, group->w, group->sums + group->held, win->ow);
        group->held += win->ow;
        if (group->held + win->ow > conv->most) {
            put_results(conv, 1, group);
        }
    }
    put_results(conv, 1, group);
}

static void convolve(const conv_s8 *conv, const int8_t *x, void *workspace, group_s8 *group)
{
    uint32_t *column = workspace;
    int8_t *rows = (int8_t *)workspace + conv->column_bytes + conv->sum_bytes;
    group->sums = (int32_t *)(void *)((int8_t *)workspace + conv->column_bytes);
    group->held = 0;
    if (conv->pointwise) {
        convolve_pointwise(conv, x, column, group);
    } else {
        convolve_windows(conv, x, column, rows, group);
    }
    put_results(conv, conv->out_channels, group);
}

static void convolve_each_alone(const conv_s8 *conv, const int8_t *x, void *workspace, group_s8 *group)
{
    int8_t *rows = (int8_t *)workspace + conv->sum_bytes;
    int8_t *y = group->y;
    group->sums = workspace;
    group->held = 0;
    for (int32_t k = 0; k < conv->out_channels; k++, group->w += conv->taps, group->start++, group->scale++) {
        convolve_alone(conv, x, rows, group);
        group->y = y += conv->windows.oh * conv->windows.ow;
    }
}

int poet_conv2d_s8_run(const poet_op_args *args)
{
    conv_s8 conv;
    const int status = read_params(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &conv.windows;
    memset((int8_t *)args->workspace + conv.column_bytes + conv.sum_bytes, conv.zero_x, conv.row_bytes);
    const int8_t *x = args->inputs[0];
    int8_t *y = args->outputs[0];
    for (int32_t i = 0; i < conv.n * conv.groups; i++) {
        const int32_t first = i % conv.groups * conv.out_channels;
        group_s8 group = {
            .w = (const int8_t *)args->inputs[1] + first * conv.taps,
            .start = (const int32_t *)args->inputs[2] + first,
            .scale = (const float *)args->inputs[3] + first,
            .y = y,
        };
        (conv.alone ? convolve_each_alone : convolve)(&conv, x, args->workspace, &group);
        x += conv.in_channels * win->h * win->w;
        y += conv.out_channels * win->oh * win->ow;
    }
    return POET_OK;
}
