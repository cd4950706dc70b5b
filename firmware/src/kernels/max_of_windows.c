/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "pool.h"

float poet_max_of_window(const poet_windows *win, const float *x, int32_t oy, int32_t ox, int32_t *place)
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

void poet_max_of_windows(const poet_pool *pool, const float *x, float *y, uint8_t *places)
{
    const poet_windows *win = &pool->windows;
    for (int32_t plane = 0; plane < pool->planes; plane++, x += win->h * win->w) {
        for (int32_t oy = 0; oy < win->oh; oy++) {
            for (int32_t ox = 0; ox < win->ow; ox++) {
                int32_t place;
                *y++ = poet_max_of_window(win, x, oy, ox, &place);
                if (places != NULL) {
                    *places++ = (uint8_t)place;
                }
            }
        }
    }
}
