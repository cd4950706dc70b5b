/* SPDX-License-Identifier: Apache-2.0 */
/* By which algorithm a convolution is computed. Apart from the kernels, so that asking links none of them. */
#include "depthwise.h"
#include "micro_kernel.h"
#include "small_planes.h"
#include "winograd.h"

static bool extent_suits(int32_t extent)
{
    return extent == 4 || extent > 5;
}

static int32_t tiles_along(int32_t extent)
{
    return (extent + 1) / 2;
}

bool poet_winograd_suits(int32_t n, int32_t groups, int32_t channels, int32_t filters, const poet_windows *windows)
{
    const poet_windows *win = windows;
    const bool plain = groups == 1 && win->r == KERNEL_WIDTH && win->s == KERNEL_WIDTH && win->sh == 1 && win->sw == 1;
    const bool large = channels >= POET_WINOGRAD_PART && filters >= POET_WINOGRAD_PART;
    return plain && large && extent_suits(win->oh) && extent_suits(win->ow) &&
           n * tiles_along(win->oh) * tiles_along(win->ow) >= POET_WINOGRAD_TILES;
}

bool poet_depthwise_suits(const poet_conv *conv)
{
    const poet_windows *win = &conv->windows;
    const bool has_kernel = win->r == KERNEL_WIDTH && win->s == KERNEL_WIDTH && win->ph == 1 && win->pw == 1;
    const bool even = win->h % 2 == 0 && win->w % 2 == 0;
    const bool has_stride = win->sh == win->sw && (win->sh == 1 || (win->sh == 2 && even));
    const bool alone = conv->in_channels == 1 && conv->out_channels == 1;
    return alone && has_kernel && has_stride && win->ow >= POET_DEPTHWISE_COLUMNS;
}

bool poet_small_planes_suits(const poet_conv *conv)
{
    const poet_windows *win = &conv->windows;
    const bool has_kernel = win->r == KERNEL_WIDTH && win->s == KERNEL_WIDTH && win->ph == 1 && win->pw == 1;
    const bool is_small = win->h == 2 && win->w == 2 && win->sh == 1 && win->sw == 1;
    return has_kernel && is_small && conv->groups == 1 && conv->n >= POET_TILE && conv->in_channels >= POET_TILE;
}
