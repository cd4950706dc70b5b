/* SPDX-License-Identifier: Apache-2.0 */
/* For each output row, the input rows that it needs are laid out with their padding in the workspace; then 4 output
 * channels are computed at a time. A pointwise convolution reads its input where it lies. */
#include "convolution.h"

#include <stdbool.h>
#include <stddef.h>

#include "depthwise.h"
#include "gemm.h"
#include "im2col.h"
#include "small_planes.h"
#include "winograd.h"

/* Of a single channel, all input rows are laid out at once. */
static int32_t rows_at_a_time(const poet_conv *conv)
{
    return conv->in_place || conv->in_channels == 1 ? conv->windows.oh : 1;
}

/* Input rows that so many output rows read. */
static int64_t rows_behind(const poet_windows *win, int32_t rows)
{
    return (int64_t)(rows - 1) * win->sh + win->r;
}

/* Columns of a padded input row: what the positions of one output row read, in whole tiles. */
static int64_t im2col_width(const poet_windows *win)
{
    const int32_t columns = win->ow < POET_TILE ? POET_TILE : win->ow;
    return (int64_t)(columns - 1) * win->sw + win->s;
}

int poet_convolution_workspace(const poet_conv *conv, uint32_t *bytes)
{
    *bytes = conv->winograd ? POET_WINOGRAD_BYTES : 0;
    if (conv->small_planes) {
        *bytes = POET_SMALL_PLANES_BYTES * (uint32_t)conv->out_channels;
        return POET_OK;
    }
    if (conv->in_place || conv->winograd || conv->depthwise) {
        return POET_OK;
    }
    *bytes = poet_im2col_bytes(conv->in_channels, rows_behind(&conv->windows, rows_at_a_time(conv)),
                               im2col_width(&conv->windows));
    return *bytes != 0 ? POET_OK : POET_E_ARGUMENT;
}

/* How the sums of output channels begin. */
typedef struct sums {
    const float *bias; /* one a channel, or NULL */
    bool add;          /* to what is in y instead */
    poet_gemm_way *way;
} sums;

/* The gemm's rows are output channels of one group, the first of which is `channel`. */
static void compute_channels(const poet_conv *conv, const poet_gemm *gemm, const poet_im2col *im2col, const float *x,
                             const float *w, const sums *sums, int32_t channel, float *workspace, float *y)
{
    const poet_windows *win = &conv->windows;
    const float *bias = sums->bias == NULL ? NULL : sums->bias + channel;
    for (int32_t oy = 0; oy < win->oh; oy += gemm->panels) {
        if (!conv->in_place) {
            poet_im2col_fill(im2col, x, oy * win->sh + conv->top, workspace);
        }
        const float *rows = conv->in_place ? x : workspace;
        sums->way(gemm, w, bias, rows, y + oy * win->ow);
    }
}

static void convolve_by_winograd(const poet_conv *conv, int32_t first, int32_t count, const float *x, const float *w,
                                 const sums *sums, float *workspace, float *y)
{
    const int32_t plane = conv->windows.oh * conv->windows.ow;
    poet_winograd job = poet_conv_winograd(conv, count);
    job.adds = sums->add;
    poet_winograd_sum(&job, x, w, sums->bias == NULL ? NULL : sums->bias + first, workspace, y + first * plane);
}

static void convolve(const poet_conv *conv, int32_t first, int32_t count, const float *x, const float *w,
                     const sums *sums, float *workspace, float *y)
{
    const poet_windows *win = &conv->windows;
    if (conv->winograd) {
        convolve_by_winograd(conv, first, count, x, w, sums, workspace, y);
        return;
    }
    if (conv->depthwise) {
        poet_depthwise_convolution(conv, sums->add, first, count, x, w, sums->bias, y);
        return;
    }
    if (conv->small_planes) {
        poet_small_planes_convolution(conv, sums->way, sums->add, count, x, w,
                                      sums->bias == NULL ? NULL : sums->bias + first, workspace,
                                      y + first * win->oh * win->ow);
        return;
    }
    const int32_t rows = rows_at_a_time(conv);
    const poet_im2col im2col = {
        .channels = conv->in_channels,
        .rows = (int32_t)rows_behind(win, rows),
        .width = (int32_t)im2col_width(win),
        .h = win->h,
        .w = win->w,
        .left = -win->pw,
    };
    poet_gemm gemm = {
        .columns = win->ow,
        .channels = 1,
        .k_rows = conv->in_channels * win->r,
        .taps = win->s,
        .a_row = conv->taps,
        .a_k_row = win->s,
        .a_tap = 1,
        .b_k_row = conv->in_place ? win->h * win->w : im2col.width,
        .b_tap = 1,
        .b_column = win->sw,
        .out_row = conv->y_plane,
        .out_column = 1,
        .panels = rows,
        .b_panel = win->sh * (conv->in_place ? win->w : im2col.width),
        .out_panel = win->ow,
    };
    if (!conv->in_place) {
        poet_im2col_clear(&im2col, workspace);
    }
    for (int32_t n = 0; n < conv->n; n++) {
        for (int32_t channel = first; channel < first + count; channel += gemm.rows) {
            const int32_t group = channel / conv->out_channels;
            gemm.rows = poet_conv_channels_in_group(conv, channel, first + count);
            compute_channels(conv, &gemm, &im2col, x + group * conv->in_channels * win->h * win->w,
                             w + (channel - first) * conv->taps, sums, channel, workspace, y + channel * conv->y_plane);
        }
        x += conv->groups * conv->in_channels * win->h * win->w;
        y += conv->groups * conv->out_channels * conv->y_plane;
    }
}

void poet_convolution(const poet_conv *conv, int32_t first, int32_t count, const float *x, const float *w,
                      const float *bias, float *workspace, float *y)
{
    const sums sums = {.bias = bias, .way = poet_conv_multiply};
    convolve(conv, first, count, x, w, &sums, workspace, y);
}

void poet_convolution_add(const poet_conv *conv, int32_t first, int32_t count, const float *x, const float *w,
                          float *workspace, float *y)
{
    const sums sums = {.add = true, .way = poet_gemm_add};
    convolve(conv, first, count, x, w, &sums, workspace, y);
}
