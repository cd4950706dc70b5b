/* SPDX-License-Identifier: Apache-2.0 */
#include "conv.h"

#include <stddef.h>

#include "depthwise.h"
#include "depthwise_padded.h"
#include "gemm.h"
#include "small_planes.h"

int poet_conv_read(const int32_t *params, poet_conv *conv)
{
    const poet_conv2d_params *p = (const poet_conv2d_params *)params;
    if (p->g < 1 || p->c < p->g || p->k < p->g || p->c % p->g != 0 || p->k % p->g != 0 || (p->bias & ~1) != 0) {
        return POET_E_ARGUMENT;
    }
    *conv = (poet_conv){
        .n = p->n,
        .groups = p->g,
        .bias = p->bias,
        .in_channels = p->c / p->g,
        .out_channels = p->k / p->g,
        .windows = {.h = p->h, .w = p->w, .r = p->r, .s = p->s, .sh = p->sh, .sw = p->sw, .ph = p->ph, .pw = p->pw},
    };
    if (poet_windows_place(&conv->windows) != POET_OK) {
        return POET_E_ARGUMENT;
    }
    conv->x_bytes = 4 * poet_count(p->n, p->c, p->h, p->w);
    conv->w_bytes = 4 * poet_count(p->k, conv->in_channels, p->r, p->s);
    conv->b_bytes = 4 * poet_count(p->k, 1, 1, 1);
    conv->y_bytes = 4 * poet_count(p->n, p->k, conv->windows.oh, conv->windows.ow);
    if (conv->x_bytes == 0 || conv->w_bytes == 0 || conv->y_bytes == 0) {
        return POET_E_ARGUMENT;
    }
    conv->taps = conv->in_channels * p->r * p->s;
    poet_windows *win = &conv->windows;
    conv->depthwise = poet_depthwise_suits(conv);
    conv->small_planes = poet_small_planes_suits(conv);
    conv->winograd = !conv->depthwise && poet_winograd_suits(p->n, p->g, p->c, p->k, win);
    if ((conv->winograd && poet_winograd_sum == NULL) || (conv->depthwise && poet_depthwise_convolution == NULL) ||
        (conv->small_planes && poet_small_planes_convolution == NULL)) {
        return POET_E_UNSUPPORTED;
    }
    const int pointwise = p->r == 1 && p->s == 1 && p->ph == 0 && p->pw == 0;
    if (pointwise && p->sh == 1 && p->sw == 1) { /* positions follow one another as elements do: one long row */
        win->w *= win->h;
        win->h = 1;
        win->ow = win->w;
        win->oh = 1;
    }
    conv->in_place = pointwise && win->ow >= POET_TILE;
    conv->top = -win->ph;
    conv->y_plane = win->oh * win->ow;
    return POET_OK;
}

int poet_conv_read_rows(const int32_t *params, poet_conv *conv)
{
    const poet_conv2d_rows_params *p = (const poet_conv2d_rows_params *)params;
    *conv = (poet_conv){
        .n = 1,
        .groups = 1,
        .bias = p->bias,
        .in_channels = p->c,
        .out_channels = p->k,
        .windows = {.h = p->h, .w = p->w, .r = p->r, .s = p->s, .sh = p->sh, .sw = p->sw, .pw = p->pw},
        .top = p->top,
    };
    poet_windows *win = &conv->windows;
    poet_windows along = {.h = 1, .w = p->w, .r = 1, .s = p->s, .sh = 1, .sw = p->sw, .pw = p->pw};
    /* so that no row of a window is beyond 32 bits: of the last one some row is in x, or below its padding */
    const int64_t last = (int64_t)p->top + (int64_t)(p->rows - (int64_t)1) * p->sh;
    if ((p->bias & ~1) != 0 || p->r < 1 || p->sh < 1 || p->rows < 1 || last <= -p->r || last >= p->h ||
        poet_count(p->h, p->r, 1, 1) == 0 || poet_windows_place(&along) != POET_OK) {
        return POET_E_ARGUMENT;
    }
    win->ow = along.ow;
    win->oh = p->rows;
    conv->x_bytes = 4 * poet_count(p->c, p->h, p->w, 1);
    conv->w_bytes = 4 * poet_count(p->k, p->c, p->r, p->s);
    conv->b_bytes = 4 * poet_count(p->k, 1, 1, 1);
    conv->y_bytes = poet_band_bytes(p->k, p->of, p->rows, win->ow);
    conv->y_plane = p->of * win->ow;
    conv->taps = p->c * p->r * p->s;
    return conv->x_bytes != 0 && conv->w_bytes != 0 && conv->y_bytes != 0 ? POET_OK : POET_E_ARGUMENT;
}

/* Not inlined, because other products would pay for its registers. */
__attribute__((noinline)) static void multiply_single(const poet_gemm *gemm, const float *w, const float *start,
                                                      const float *x, float *y)
{
    if (poet_depthwise_padded_multiply == NULL || !poet_depthwise_padded_multiply(gemm, w, start, x, y)) {
        poet_gemm_multiply(gemm, w, start, x, y);
    }
}

void poet_conv_multiply(const poet_gemm *gemm, const float *w, const float *start, const float *x, float *y)
{
    if (poet_depthwise_padded_might(gemm)) {
        multiply_single(gemm, w, start, x, y);
    } else {
        poet_gemm_multiply(gemm, w, start, x, y);
    }
}

int32_t poet_conv_channels_in_group(const poet_conv *conv, int32_t channel, int32_t end)
{
    const int32_t group_end = (channel / conv->out_channels + 1) * conv->out_channels;
    return (group_end < end ? group_end : end) - channel;
}

poet_winograd poet_conv_winograd(const poet_conv *conv, int32_t count)
{
    const poet_windows *win = &conv->windows;
    return (poet_winograd){
        .n = conv->n,
        .channels = conv->in_channels,
        .filters = count,
        .h = win->h,
        .w = win->w,
        .image = conv->in_channels * win->h * win->w,
        .top = -win->ph,
        .left = -win->pw,
        .out_h = win->oh,
        .out_w = win->ow,
        .out_image = conv->out_channels * win->oh * win->ow,
        .weights_channel = win->r * win->s,
        .weights_filter = conv->taps,
    };
}
