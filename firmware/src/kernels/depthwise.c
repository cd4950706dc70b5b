/* SPDX-License-Identifier: Apache-2.0 */
#include "registers_m4f.h"

#include "depthwise.h"

#include <stddef.h>

#include "micro_kernel.h"
#include "span.h"

#define COLUMNS POET_DEPTHWISE_COLUMNS

#include "depthwise_c_inl.h"
#if POET_FPU_ASSEMBLY
#include "depthwise_m4f_inl.h"
#else
#define convolve_planes sum_windows
#define gradient_of_planes sum_gradients
#define add_weight_gradients sum_products
#endif

const uint8_t poet_depthwise_kernels = 1;

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
