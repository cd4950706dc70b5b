/* SPDX-License-Identifier: Apache-2.0 */
/* The maxima of all windows, and the row-major place of each inside its window. */
#ifndef POET_OPS_MAX_OF_WINDOW_INL_H
#define POET_OPS_MAX_OF_WINDOW_INL_H

#include <stddef.h>

#include "pool.h"

/* Of one window of the plane x; the first of equal ones. */
__attribute__((always_inline)) static inline float max_of_window(const poet_windows *win, const float *x, int32_t oy,
                                                                 int32_t ox, int32_t *place)
{
    const int32_t top = oy * win->sh - win->ph;
    const int32_t left = ox * win->sw - win->pw;
    const poet_span rows = poet_span_inside(top, win->r, win->h);
    const poet_span columns = poet_span_inside(left, win->s, win->w);
    float most = x[(top + rows.first) * win->w + left + columns.first];
    *place = rows.first * win->s + columns.first;
    for (int32_t r = rows.first; r < rows.end; r++) {
        for (int32_t s = columns.first; s < columns.end; s++) {
            const float value = x[(top + r) * win->w + left + s];
            if (value > most || value != value) { /* a NaN wins, as in PyTorch */
                most = value;
                *place = r * win->s + s;
            }
        }
    }
    return most;
}

#ifndef __SOFTFP__ /* without a floating-point unit, the sum of a window costs more than it saves */
static int are_2x2(const poet_windows *win)
{
    return win->r == 2 && win->s == 2 && win->ph == 0 && win->pw == 0;
}

/* Not inlined, because the others would pay for its registers. */
__attribute__((noinline)) static float max_of_odd_window(const poet_windows *win, const float *x, int32_t oy,
                                                         int32_t ox, int32_t *place)
{
    return max_of_window(win, x, oy, ox, place);
}

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
                    most = max_of_odd_window(win, x, oy, win->ow - (int32_t)(end - y), &place);
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

/* `places` may be NULL. */
static inline void max_of_windows(const poet_pool *pool, const float *x, float *y, uint8_t *places)
{
    const poet_windows *win = &pool->windows;
#ifndef __SOFTFP__
    if (are_2x2(win)) {
        max_of_2x2(pool, x, y, places);
        return;
    }
#endif
    for (int32_t plane = 0; plane < pool->planes; plane++, x += win->h * win->w) {
        for (int32_t oy = 0; oy < win->oh; oy++) {
            for (int32_t ox = 0; ox < win->ow; ox++) {
                int32_t place;
                *y++ = max_of_window(win, x, oy, ox, &place);
                if (places != NULL) {
                    *places++ = (uint8_t)place;
                }
            }
        }
    }
}

#endif
