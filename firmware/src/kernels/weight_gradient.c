/* SPDX-License-Identifier: Apache-2.0 */
/* For a few output rows at a time, and for all of a single channel, the input rows that they read are laid out in the
 * workspace with their padding, unless there is none. Every tap is then a span of each of those rows, and its share
 * of the gradient a product along them, which is added to what earlier rows gave. */
#include "weight_gradient.h"

#include "depthwise.h"
#include "gemm.h"
#include "im2col.h"
#include "small_planes.h"
#include "span.h"
#include "winograd.h"

#define POSITIONS_AT_A_TIME 32 /* at least, so that starting a product costs little beside it */

/* Whether a window sees padding, of a band perhaps rows that the plane has not. */
static int is_laid_out(const poet_conv *conv)
{
    const poet_windows *win = &conv->windows;
    const int32_t end = conv->top + (win->oh - 1) * win->sh + win->r;
    return win->ph > 0 || win->pw > 0 || conv->top < 0 || end > win->h;
}

static int32_t rows_at_a_time(const poet_conv *conv)
{
    const poet_windows *win = &conv->windows;
    if (!is_laid_out(conv) || conv->in_channels == 1) {
        return win->oh;
    }
    const int32_t wanted = (POSITIONS_AT_A_TIME - 1) / win->ow + 1;
    return wanted < win->oh ? wanted : win->oh;
}

/* Input rows that so many output rows read. */
static int32_t rows_behind(const poet_windows *win, int32_t rows)
{
    return (rows - 1) * win->sh + win->r;
}

static int64_t im2col_width(const poet_windows *win)
{
    return (int64_t)(win->ow - 1) * win->sw + win->s;
}

int poet_weight_gradient_workspace(const poet_conv *conv, uint32_t *bytes)
{
    const poet_windows *win = &conv->windows;
    *bytes = conv->winograd ? POET_WINOGRAD_BYTES : 0;
    if (conv->small_planes) {
        *bytes = POET_SMALL_PLANES_WEIGHT_BYTES * (uint32_t)conv->out_channels;
        return POET_OK;
    }
    if (!is_laid_out(conv) || conv->winograd || conv->depthwise) {
        return POET_OK;
    }
    *bytes = poet_im2col_bytes(conv->in_channels, rows_behind(win, rows_at_a_time(conv)), im2col_width(win));
    return *bytes != 0 ? POET_OK : POET_E_ARGUMENT;
}

/* Adds the share of some output rows, in some channels of one group in one image. */
static void add_rows(const poet_conv *conv, const poet_gemm_nt *gemm, const float *gy, const float *im2col,
                     const poet_im2col *shape, float *gw)
{
    const poet_windows *win = &conv->windows;
    const float *columns[POET_GEMM_NT_COLUMNS];
    poet_gemm_nt part = *gemm;
    part.columns = 0;
    for (int32_t c = 0; c < conv->in_channels; c++) {
        for (int32_t r = 0; r < win->r; r++) {
            for (int32_t s = 0; s < win->s; s++) {
                columns[part.columns++] = im2col + (c * shape->rows + r) * shape->width + s;
                if (part.columns == POET_GEMM_NT_COLUMNS) {
                    poet_gemm_nt_add(&part, gy, columns, gw);
                    gw += POET_GEMM_NT_COLUMNS;
                    part.columns = 0;
                }
            }
        }
    }
    if (part.columns > 0) {
        poet_gemm_nt_add(&part, gy, columns, gw);
    }
}

/* The input rows that so many output rows read, as they are laid out or as they lie. */
static poet_im2col im2col_behind(const poet_conv *conv, int32_t rows)
{
    const poet_windows *win = &conv->windows;
    const int padded = is_laid_out(conv);
    return (poet_im2col){
        .channels = conv->in_channels,
        .rows = padded ? rows_behind(win, rows) : win->h,
        .width = padded ? (int32_t)im2col_width(win) : win->w,
        .h = win->h,
        .w = win->w,
        .left = -win->pw,
    };
}

/* Not inlined: what it keeps would stand on the stack below Winograd's algorithm, too. */
__attribute__((noinline)) static void add_image(const poet_conv *conv, int32_t channels, const float *gy,
                                                const float *x, float *workspace, float *gw)
{
    const poet_windows *win = &conv->windows;
    const int32_t step = rows_at_a_time(conv);
    for (int32_t oy = 0; oy < win->oh; oy += step) {
        const int32_t rows = win->oh - oy < step ? win->oh - oy : step;
        const poet_im2col im2col = im2col_behind(conv, rows);
        const poet_gemm_nt gemm = {
            .rows = channels,
            .k_rows = rows,
            .taps = win->ow,
            .a_row = conv->y_plane,
            .b_k_row = win->sh * im2col.width,
            .b_tap = win->sw,
            .out_row = conv->taps,
        };
        if (is_laid_out(conv)) {
            poet_im2col_fill(&im2col, x, oy * win->sh + conv->top, workspace);
        }
        add_rows(conv, &gemm, gy + oy * win->ow, is_laid_out(conv) ? workspace : x + conv->top * win->w, &im2col, gw);
    }
}

static void add_by_winograd(const poet_conv *conv, int32_t first, int32_t count, const float *gy, const float *x,
                            float *workspace, float *gw)
{
    const int32_t plane = conv->windows.oh * conv->windows.ow;
    const poet_winograd job = poet_conv_winograd(conv, count);
    poet_winograd_add_weight_gradient(&job, gy + first * plane, x, workspace, gw);
}

void poet_weight_gradient(const poet_conv *conv, int32_t first, int32_t count, const float *gy, const float *x,
                          float *workspace, float *gw)
{
    const poet_windows *win = &conv->windows;
    const int32_t plane = win->oh * win->ow;
    if (conv->depthwise) {
        poet_depthwise_weight_gradient(conv, first, count, gy, x, gw);
        return;
    }
    if (conv->small_planes) {
        poet_small_planes_weight_gradient(conv, count, gy + first * plane, x, workspace, gw);
        return;
    }
    if (!conv->adds) {
        poet_clear(gw, count * conv->taps);
    }
    if (conv->winograd) {
        add_by_winograd(conv, first, count, gy, x, workspace, gw);
        return;
    }
    if (is_laid_out(conv)) {
        const poet_im2col im2col = im2col_behind(conv, rows_at_a_time(conv));
        poet_im2col_clear(&im2col, workspace);
    }
    for (int32_t n = 0; n < conv->n; n++) {
        int32_t channels;
        for (int32_t channel = first; channel < first + count; channel += channels) {
            const int32_t group = channel / conv->out_channels;
            channels = poet_conv_channels_in_group(conv, channel, first + count);
            add_image(conv, channels, gy + channel * conv->y_plane, x + group * conv->in_channels * win->h * win->w,
                      workspace, gw + (channel - first) * conv->taps);
        }
        gy += conv->groups * conv->out_channels * conv->y_plane;
        x += conv->groups * conv->in_channels * win->h * win->w;
    }
}

float poet_bias_gradient(const poet_conv *conv, int32_t channel, const float *gy, float sum)
{
    const int32_t plane = conv->windows.oh * conv->windows.ow;
    const int32_t step = conv->groups * conv->out_channels * conv->y_plane;
    gy += channel * conv->y_plane;
    for (int32_t n = 0; n < conv->n; n++) {
        for (int32_t i = 0; i < plane; i++) {
            sum += gy[n * step + i];
        }
    }
    return sum;
}
