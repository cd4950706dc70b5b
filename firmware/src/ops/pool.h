/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a pooling, shared by the maximum, the average and their gradients. */
#ifndef POET_OPS_POOL_H
#define POET_OPS_POOL_H

#include "shape.h"

typedef struct poet_pool {
    int32_t planes; /* images x channels */
    poet_windows windows;
    uint32_t x_count, y_count;
} poet_pool;

/* Reads the parameters of one of the four pooling operators. Padding must stay below the window's size, so that
 * every window sees at least one element. */
int poet_pool_read(const int32_t *params, poet_pool *pool);

#endif
