/* SPDX-License-Identifier: Apache-2.0 */
/* The maxima of windows of 2x2 without padding; of others as poet_max_of_windows. `places` may be NULL: a constant, so
 * that what makes none pays for none. */
#ifndef POET_OPS_MAX_OF_2X2_INL_H
#define POET_OPS_MAX_OF_2X2_INL_H

#include <stddef.h>

#include "../kernels/pool.h"
#include "../kernels/rounding.h"

#if !POET_SOFT_FLOATS /* without a floating-point unit, the sum of a window costs more than it saves */
/* A sum that is no number has one among its terms, or infinities of both signs: that window goes the general way. */
__attribute__((noinline)) static void max_of_2x2(const poet_pool *pool, const float *x, float *y, uint8_t *places)
{
    const poet_windows *win = &pool->windows;
    const int32_t sw = win->sw;
    for (int32_t plane = 0; plane < pool->planes; plane++, x += win->h * win->w) {
        for (int32_t oy = 0; oy < win->oh; oy++) {
            const float *upper = x + oy * win->sh * win->w;
            const float *lower = upper + win->w;
            const float *const end = y + win->ow;
            for (; y != end; upper += sw, lower += sw, y++) {
                const float upper0 = upper[0], upper1 = upper[1], lower0 = lower[0], lower1 = lower[1];
                const float sum = (upper0 + upper1) + (lower0 + lower1);
                float most = upper0, most_below = lower0;
                int32_t place = 0, place_below = 2;
                if (upper1 > most) {
                    most = upper1;
                    place = 1;
                }
                if (lower1 > most_below) {
                    most_below = lower1;
                    place_below = 3;
                }
                if (most_below > most) {
                    most = most_below;
                    place = place_below;
                }
                if (sum != sum) {
                    most = poet_max_of_window(win, x, oy, win->ow - (int32_t)(end - y), &place);
                }
                *y = most;
                if (places != NULL) {
                    *places++ = (uint8_t)place;
                }
            }
        }
    }
}
#endif

static inline void max_of_windows(const poet_pool *pool, const float *x, float *y, uint8_t *places)
{
#if !POET_SOFT_FLOATS
    const poet_windows *win = &pool->windows;
    if (win->r == 2 && win->s == 2 && win->ph == 0 && win->pw == 0) {
        max_of_2x2(pool, x, y, places);
        return;
    }
#endif
    poet_max_of_windows(pool, x, y, places);
}

#endif
