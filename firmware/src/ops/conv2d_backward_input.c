/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a convolution by its input: gx[n,c] = sum over k, r, s of gy[n,k] * w[k,c,r,s].
 *
 * With a stride, the rows of gx fall into phases: a row at distance y + ph from the padded top meets only the taps r
 * that leave the same remainder by the stride. Columns likewise. Within a phase this is a convolution without stride
 * over gy, with the taps in descending order. For one row of every phase, the rows of gy that they meet are laid out in
 * the workspace with zeros around them. A pointwise convolution has one phase with a tap, and it reads gy where it
 * lies. */
#include "conv.h"
#include "gemm.h"
#include "im2col.h"
#include "span.h"

/* One axis of one phase: taps first, first + stride, ... of the kernel, elements begin, begin + stride, ... of gx. */
typedef struct phase {
    int32_t first, taps;
    int32_t begin, count;
    int32_t source; /* position in gy that meets tap `first` at element `begin` */
} phase;

static phase phase_of(int32_t remainder, int32_t kernel, int32_t stride, int32_t padding, int32_t extent)
{
    phase p;
    p.first = remainder;
    p.taps = remainder < kernel ? (kernel - remainder + stride - 1) / stride : 0;
    p.begin = ((remainder - padding) % stride + stride) % stride;
    p.count = p.begin < extent ? (extent - p.begin + stride - 1) / stride : 0;
    p.source = (p.begin + padding - remainder) / stride;
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

int poet_conv2d_backward_input_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = poet_conv_read(params, &conv);
    if (status != POET_OK) {
        return status;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {conv.y_bytes, conv.w_bytes},
        .output_bytes = {conv.x_bytes},
    };
    if (!conv.in_place) {
        sizes->workspace_bytes =
            poet_im2col_bytes(conv.out_channels, rows_met(&conv).count, columns_met(&conv.windows).count);
        return sizes->workspace_bytes != 0 ? POET_OK : POET_E_ARGUMENT;
    }
    return POET_OK;
}

/* Some rows of one phase: `im2col` begins with what the first of their elements meets by its first tap. */
static void compute_phase(const poet_conv *conv, const phase *rows, const phase *columns, int32_t panels,
                          const poet_im2col *shape, const float *im2col, const float *w, float *gx)
{
    const poet_windows *win = &conv->windows;
    const poet_gemm gemm = {
        .rows = conv->in_channels,
        .columns = columns->count,
        .channels = conv->out_channels,
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
    poet_gemm_multiply(&gemm, w + rows->first * win->s + columns->first, NULL, im2col, gx);
}

/* All phases of some whole strides of rows, the first of which is stride `top`. */
static void compute_strides(const poet_conv *conv, const poet_im2col *shape, span met, const float *im2col, int32_t top,
                            const float *w, float *gx)
{
    const poet_windows *win = &conv->windows;
    const int32_t strides = strides_at_a_time(conv);
    for (int32_t i = 0; i < win->sh; i++) {
        const phase rows = phase_of(i, win->r, win->sh, win->ph, win->h);
        const int32_t left = rows.count - top;
        const float *row_of_gy = im2col + (rows.source - met.first) * shape->width;
        float *row_of_gx = gx + (rows.begin + top * win->sh) * win->w;
        if (rows.taps == 0 || left <= 0) {
            continue;
        }
        for (int32_t j = 0; j < win->sw; j++) {
            const phase columns = phase_of(j, win->s, win->sw, win->pw, win->w);
            if (columns.taps > 0 && columns.count > 0) {
                compute_phase(conv, &rows, &columns, left < strides ? left : strides, shape,
                              row_of_gy + columns.source - shape->left, w, row_of_gx + columns.begin);
            }
        }
    }
}

static void compute_group(const poet_conv *conv, const poet_im2col *shape, span met, const float *gy, const float *w,
                          float *workspace, float *gx)
{
    const poet_windows *win = &conv->windows;
    if (win->sh > win->r || win->sw > win->s) { /* some phases have no taps */
        poet_clear(gx, conv->in_channels * win->h * win->w);
    }
    for (int32_t top = 0; top * win->sh < win->h; top += strides_at_a_time(conv)) {
        if (!conv->in_place) {
            poet_im2col_fill(shape, gy, met.first + top, workspace);
        }
        compute_strides(conv, shape, met, conv->in_place ? gy : workspace, top, w, gx);
    }
}

int poet_conv2d_backward_input_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &conv.windows;
    const span rows = conv.in_place ? (span){0, win->oh} : rows_met(&conv);
    const span columns = conv.in_place ? (span){0, win->ow} : columns_met(win);
    const poet_im2col shape = {
        .channels = conv.out_channels,
        .rows = rows.count,
        .width = columns.count,
        .h = win->oh,
        .w = win->ow,
        .left = columns.first,
    };
    const float *gy = args->inputs[0];
    float *gx = args->outputs[0];
    if (!conv.in_place) {
        poet_im2col_clear(&shape, args->workspace);
    }
    for (int32_t n = 0; n < conv.n; n++) {
        const float *w = args->inputs[1];
        for (int32_t group = 0; group < conv.groups; group++) {
            compute_group(&conv, &shape, rows, gy, w, args->workspace, gx);
            gy += conv.out_channels * win->oh * win->ow;
            w += conv.out_channels * conv.taps;
            gx += conv.in_channels * win->h * win->w;
        }
    }
    return POET_OK;
}
