/* SPDX-License-Identifier: Apache-2.0 */
#include "depthwise.h"

#include <stddef.h>

#include "micro_kernel.h"
#include "span.h"

#define COLUMNS 3 /* of results at a time: few enough for registers, and 3, 6, 12, 24 and 48 are multiples */

#include "depthwise_c_inl.h"
#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)
#include "depthwise_m4f_inl.h"
#else
#define convolve_planes sum_windows
#define gradient_of_planes sum_gradients
#define add_weight_gradients sum_products
#endif

bool poet_depthwise_suits(const poet_conv *conv)
{
    const poet_windows *win = &conv->windows;
    const bool has_kernel = win->r == KERNEL_WIDTH && win->s == KERNEL_WIDTH && win->ph == 1 && win->pw == 1;
    const bool even = win->h % 2 == 0 && win->w % 2 == 0;
    const bool has_stride = win->sh == win->sw && (win->sh == 1 || (win->sh == 2 && even));
    return conv->in_channels == 1 && conv->out_channels == 1 && has_kernel && has_stride && win->ow >= COLUMNS;
}

void poet_depthwise_convolution(const poet_conv *conv, bool adds, int32_t first, int32_t count, const float *x,
                                const float *w, const float *bias, float *y)
{
    const poet_windows *win = &conv->windows;
    for (int32_t n = 0; n < conv->n; n++) {
        const int32_t channel = n * conv->groups + first;
        convolve_planes(win, count, adds, x + channel * win->h * win->w, w, bias == NULL ? NULL : bias + first,
                        y + channel * win->oh * win->ow);
    }
}

void poet_depthwise_input_gradient(const poet_conv *conv, bool adds, int32_t first, int32_t count, const float *gy,
                                   const float *w, float *gx)
{
    const poet_windows *win = &conv->windows;
    for (int32_t n = 0; n < conv->n; n++) {
        const int32_t channel = n * conv->groups + first;
        gradient_of_planes(win, count, adds, gy + channel * win->oh * win->ow, w, gx + channel * win->h * win->w);
    }
}

void poet_depthwise_weight_gradient(const poet_conv *conv, int32_t first, int32_t count, const float *gy,
                                    const float *x, float *gw)
{
    const poet_windows *win = &conv->windows;
    poet_clear(gw, count * KERNEL_WEIGHTS);
    for (int32_t n = 0; n < conv->n; n++) {
        const int32_t channel = n * conv->groups + first;
        add_weight_gradients(win, count, gy + channel * win->oh * win->ow, x + channel * win->h * win->w, gw);
    }
}
