/* SPDX-License-Identifier: Apache-2.0 */
/* The maximum of one window of a plane x, and its row-major place inside the window. */
#include "pool.h"

static float max_of_window(const poet_windows *win, const float *x, int32_t oy, int32_t ox, int32_t *place)
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
