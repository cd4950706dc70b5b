/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution (cross-correlation, as in deep learning): y[n,k] = b[k] + sum over c, r, s of x[n,c] * w[k,c,r,s].
 *
 * For each output row, the input rows that it needs are laid out with their padding in the workspace; then 4 output
 * channels are computed at a time. A pointwise convolution reads its input where it lies. */
#include "conv.h"
#include "gemm.h"
#include "im2col.h"

/* Of a single channel, all input rows are laid out at once. */
static int32_t rows_at_a_time(const poet_conv *conv)
{
    return conv->in_place || conv->in_channels == 1 ? conv->windows.oh : 1;
}

/* Input rows behind so many output rows. */
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

int poet_conv2d_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = poet_conv_read(params, &conv);
    if (status != POET_OK) {
        return status;
    }
    *sizes = (poet_sizes){
        .inputs = conv.bias ? 3 : 2,
        .outputs = 1,
        .input_bytes = {conv.x_bytes, conv.w_bytes, conv.bias ? conv.b_bytes : 0},
        .output_bytes = {conv.y_bytes},
    };
    if (!conv.in_place) {
        sizes->workspace_bytes = poet_im2col_bytes(conv.in_channels, rows_behind(&conv.windows, rows_at_a_time(&conv)),
                                                   im2col_width(&conv.windows));
        return sizes->workspace_bytes != 0 ? POET_OK : POET_E_ARGUMENT;
    }
    return POET_OK;
}

int poet_conv2d_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &conv.windows;
    const int32_t rows = rows_at_a_time(&conv);
    const poet_im2col im2col = {
        .channels = conv.in_channels,
        .rows = (int32_t)rows_behind(win, rows),
        .width = (int32_t)im2col_width(win),
        .h = win->h,
        .w = win->w,
        .left = -win->pw,
    };
    const poet_gemm gemm = {
        .rows = conv.out_channels,
        .columns = win->ow,
        .channels = 1,
        .k_rows = conv.in_channels * win->r,
        .taps = win->s,
        .a_row = conv.taps,
        .a_k_row = win->s,
        .a_tap = 1,
        .b_k_row = conv.in_place ? win->h * win->w : im2col.width,
        .b_tap = 1,
        .b_column = win->sw,
        .out_row = win->oh * win->ow,
        .out_column = 1,
        .panels = rows,
        .b_panel = win->sh * (conv.in_place ? win->w : im2col.width),
        .out_panel = win->ow,
    };
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    if (!conv.in_place) {
        poet_im2col_clear(&im2col, args->workspace);
    }
    for (int32_t n = 0; n < conv.n; n++) {
        const float *w = args->inputs[1];
        const float *bias = conv.bias ? args->inputs[2] : NULL;
        for (int32_t group = 0; group < conv.groups; group++) {
            for (int32_t oy = 0; oy < win->oh; oy += rows) {
                if (!conv.in_place) {
                    poet_im2col_fill(&im2col, x, oy * win->sh - win->ph, args->workspace);
                }
                poet_gemm_multiply(&gemm, w, bias, conv.in_place ? x : args->workspace, y + oy * win->ow);
            }
            x += conv.in_channels * win->h * win->w;
            w += conv.out_channels * conv.taps;
            y += conv.out_channels * win->oh * win->ow;
            bias = bias ? bias + conv.out_channels : NULL;
        }
    }
    return POET_OK;
}
