/* SPDX-License-Identifier: Apache-2.0 */
/* With a stride, the rows of gx fall into phases: a row at distance y + ph from the padded top meets only the taps r
 * that leave the same remainder by the stride. Columns likewise. Within a phase this is a convolution without stride
 * over gy, with the taps in descending order. For one row of every phase, the rows of gy that they meet are laid out in
 * the workspace with zeros around them. A pointwise convolution has one phase with a tap, and it reads gy where it
 * lies. */
#include "input_gradient.h"

#include <stddef.h>

#include "depthwise.h"
#include "gemm.h"
#include "im2col.h"
#include "poet/operator.h"
#include "small_planes.h"
#include "span.h"
#include "winograd.h"

POET_KERNELS(gradients)

/* One axis of one phase: taps first, first + stride, ... of the kernel, elements begin, begin + stride, ... of gx. */
typedef struct phase {
    int32_t first, taps;
    int32_t begin, count;
    int32_t source; /* position in gy that meets tap `first` at element `begin` */
} phase;

static phase phase_of(int32_t remainder, int32_t kernel, int32_t stride, int32_t padding, int32_t extent)
{
    phase p = {.first = remainder, .begin = remainder - padding};
    for (; p.begin < 0; p.source++) {
        p.begin += stride;
    }
    p.taps = remainder < kernel ? (kernel - remainder + stride - 1) / stride : 0;
    p.count = p.begin < extent ? (extent - p.begin + stride - 1) / stride : 0;
    return p;
}

/* Positions of gy that elements 0 to extent - 1 of gx meet, if no tap is left out. */
typedef struct span {
    int32_t first, count;
} span;

static span span_met(int32_t extent, int32_t kernel, int32_t stride, int32_t padding)
{
    span met;
    const int32_t before = kernel - 1 - padding;
    met.first = before < 0 ? (stride - 1 - before) / stride : -(before / stride);
    met.count = (extent - 1 + padding) / stride - met.first + 1;
    return met;
}

/* Whole strides of rows computed from one filling of the workspace: of a single channel of gy, all of it is laid out at
 * once. */
static int32_t strides_at_a_time(const poet_conv *conv)
{
    return conv->in_place || conv->out_channels == 1 ? (conv->windows.h - 1) / conv->windows.sh + 1 : 1;
}

static span rows_met(const poet_conv *conv)
{
    const poet_windows *win = &conv->windows;
    return span_met(strides_at_a_time(conv) * win->sh, win->r, win->sh, win->ph);
}

/* Every phase reads at least a whole tile. */
static span columns_met(const poet_windows *win)
{
    const int32_t tile = POET_TILE * win->sw;
    return span_met(win->w < tile ? tile : win->w, win->s, win->sw, win->pw);
}

int poet_input_gradient_workspace(const poet_conv *conv, int32_t channels, uint32_t *bytes)
{
    *bytes = conv->winograd ? POET_WINOGRAD_BYTES : 0;
    if (conv->small_planes) {
        *bytes = POET_SMALL_PLANES_BYTES * (uint32_t)conv->in_channels;
        return POET_OK;
    }
    if (conv->in_place || conv->winograd || conv->depthwise) {
        return POET_OK;
    }
    const int32_t most = channels < conv->out_channels ? channels : conv->out_channels;
    *bytes = poet_im2col_bytes(most, rows_met(conv).count, columns_met(&conv->windows).count);
    return *bytes != 0 ? POET_OK : POET_E_ARGUMENT;
}

int poet_input_gradient_sizes(int status, const poet_conv *conv, poet_sizes *sizes)
{
    if (status != POET_OK) {
        return status;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {conv->y_bytes, conv->w_bytes},
        .output_bytes = {conv->x_bytes},
    };
    return poet_input_gradient_workspace(conv, conv->out_channels, &sizes->workspace_bytes);
}

/* What all phases of some output channels of one group share. */
typedef struct share {
    const poet_conv *conv;
    const poet_im2col *shape; /* its channels are these output channels */
    span met;                 /* rows */
    const float *w;
    bool adds; /* to what is in gx */
    poet_gemm_way *way;
} share;

/* Some rows of one phase: `im2col` begins with what the first of their elements meets by its first tap. */
static void compute_phase(const share *share, const phase *rows, const phase *columns, int32_t panels,
                          const float *im2col, float *gx)
{
    const poet_conv *conv = share->conv;
    const poet_im2col *shape = share->shape;
    const poet_windows *win = &conv->windows;
    const float *w = share->w + rows->first * win->s + columns->first;
    const poet_gemm gemm = {
        .rows = conv->in_channels,
        .columns = columns->count,
        .channels = shape->channels,
        .k_rows = rows->taps,
        .taps = columns->taps,
        .a_row = win->r * win->s,
        .a_channel = conv->taps,
        .a_k_row = win->sh * win->s,
        .a_tap = win->sw,
        .b_channel = shape->rows * shape->width,
        .b_k_row = -shape->width,
        .b_tap = -1,
        .b_column = 1,
        .out_row = win->h * win->w,
        .out_column = win->sw,
        .panels = panels,
        .b_panel = shape->width,
        .out_panel = win->sh * win->w,
    };
    share->way(&gemm, w, NULL, im2col, gx);
}

/* All phases of some whole strides of rows, the first of which is stride `top`. */
static void compute_strides(const share *share, const float *im2col, int32_t top, float *gx)
{
    const poet_im2col *shape = share->shape;
    const poet_windows *win = &share->conv->windows;
    const int32_t strides = strides_at_a_time(share->conv);
    for (int32_t i = 0; i < win->sh; i++) {
        const phase rows = phase_of(i, win->r, win->sh, win->ph, win->h);
        const int32_t left = rows.count - top;
        const float *row_of_gy = im2col + (rows.source - share->met.first) * shape->width;
        float *row_of_gx = gx + (rows.begin + top * win->sh) * win->w;
        if (rows.taps == 0 || left <= 0) {
            continue;
        }
        for (int32_t j = 0; j < win->sw; j++) {
            const phase columns = phase_of(j, win->s, win->sw, win->pw, win->w);
            if (columns.taps > 0 && columns.count > 0) {
                compute_phase(share, &rows, &columns, left < strides ? left : strides,
                              row_of_gy + columns.source - shape->left, row_of_gx + columns.begin);
            }
        }
    }
}

static void compute_channels(const share *share, const float *gy, float *workspace, float *gx)
{
    const poet_conv *conv = share->conv;
    const poet_windows *win = &conv->windows;
    if (!share->adds && (win->sh > win->r || win->sw > win->s)) { /* some phases have no taps */
        poet_clear(gx, conv->in_channels * win->h * win->w);
    }
    for (int32_t top = 0; top * win->sh < win->h; top += strides_at_a_time(conv)) {
        if (!conv->in_place) {
            poet_im2col_fill(share->shape, gy, share->met.first + top, workspace);
        }
        compute_strides(share, conv->in_place ? gy : workspace, top, gx);
    }
}

/* A convolution of gy with turned weights. */
static void compute_by_winograd(const poet_conv *conv, bool adds, int32_t first, int32_t count, const float *gy,
                                const float *w, float *workspace, float *gx)
{
    const poet_windows *win = &conv->windows;
    const int32_t plane = win->oh * win->ow;
    const poet_winograd job = {
        .n = conv->n,
        .channels = count,
        .filters = conv->in_channels,
        .h = win->oh,
        .w = win->ow,
        .image = conv->out_channels * plane,
        .top = win->ph + 1 - win->r,
        .left = win->pw + 1 - win->s,
        .out_h = win->h,
        .out_w = win->w,
        .out_image = conv->in_channels * win->h * win->w,
        .weights_channel = conv->taps,
        .weights_filter = win->r * win->s,
        .turned = true,
        .adds = adds || first > 0,
    };
    poet_winograd_sum(&job, gy + first * plane, w, NULL, workspace, gx);
}

/* How the sums of gx begin, and what adds the channels of a group that are not its first. */
typedef struct sums {
    bool add; /* to what is in gx */
    poet_gemm_way *first, *later;
} sums;

static void compute(const poet_conv *conv, const sums *sums, int32_t first, int32_t count, const float *gy,
                    const float *w, float *workspace, float *gx)
{
    const poet_windows *win = &conv->windows;
    if (conv->winograd) {
        compute_by_winograd(conv, sums->add, first, count, gy, w, workspace, gx);
        return;
    }
    if (conv->depthwise) {
        poet_depthwise_input_gradient(conv, sums->add, first, count, gy, w, gx);
        return;
    }
    if (conv->small_planes) {
        const bool adds = sums->add || first > 0;
        poet_small_planes_input_gradient(conv, first > 0 ? sums->later : sums->first, adds, count,
                                         gy + first * win->oh * win->ow, w, workspace, gx);
        return;
    }
    const span columns = conv->in_place ? (span){0, win->ow} : columns_met(win);
    const span rows = conv->in_place ? (span){0, win->oh} : rows_met(conv);
    poet_im2col shape = {
        .channels = count < conv->out_channels ? count : conv->out_channels,
        .rows = rows.count,
        .width = columns.count,
        .h = win->oh,
        .w = win->ow,
        .left = columns.first,
    };
    if (!conv->in_place) {
        poet_im2col_clear(&shape, workspace);
    }
    for (int32_t n = 0; n < conv->n; n++) {
        for (int32_t channel = first; channel < first + count; channel += shape.channels) {
            const int32_t group = channel / conv->out_channels;
            const bool is_first = channel == group * conv->out_channels;
            const share share = {conv,
                                 &shape,
                                 rows,
                                 w + (channel - first) * conv->taps,
                                 sums->add || !is_first,
                                 is_first ? sums->first : sums->later};
            shape.channels = poet_conv_channels_in_group(conv, channel, first + count);
            compute_channels(&share, gy + channel * win->oh * win->ow, workspace,
                             gx + group * conv->in_channels * win->h * win->w);
        }
        gy += conv->groups * conv->out_channels * win->oh * win->ow;
        gx += conv->groups * conv->in_channels * win->h * win->w;
    }
}

void poet_input_gradient(const poet_conv *conv, const float *gy, const float *w, float *workspace, float *gx)
{
    const sums sums = {.first = poet_conv_multiply}; /* all channels of a group at once */
    compute(conv, &sums, 0, conv->groups * conv->out_channels, gy, w, workspace, gx);
}

void poet_input_gradient_part(const poet_conv *conv, int32_t first, int32_t count, const float *gy, const float *w,
                              float *workspace, float *gx)
{
    const sums sums = {.first = poet_conv_multiply, .later = poet_gemm_add};
    compute(conv, &sums, first, count, gy, w, workspace, gx);
}

void poet_input_gradient_add(const poet_conv *conv, int32_t first, int32_t count, const float *gy, const float *w,
                             float *workspace, float *gx)
{
    const sums sums = {.add = true, .first = poet_gemm_add, .later = poet_gemm_add};
    compute(conv, &sums, first, count, gy, w, workspace, gx);
}
