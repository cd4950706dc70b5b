/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a pooling, shared by the maximum, the average and their gradients. */
#ifndef POET_KERNELS_POOL_H
#define POET_KERNELS_POOL_H

#include "shape.h"

typedef struct poet_pool {
    int32_t planes; /* images x channels */
    poet_windows windows;
    uint32_t x_count, y_count;
} poet_pool;

/* Reads the parameters of one of the four pooling operators. Padding must stay below the window's size, so that
 * every window sees at least one element. */
int poet_pool_read(const int32_t *params, poet_pool *pool);

/* The maximum of a window of the plane x, the first of equal ones, and its row-major place inside the window. */
float poet_max_of_window(const poet_windows *win, const float *x, int32_t oy, int32_t ox, int32_t *place);

/* Those of all windows; `places` may be NULL. */
void poet_max_of_windows(const poet_pool *pool, const float *x, float *y, uint8_t *places);

#endif
