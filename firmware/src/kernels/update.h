/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent on a kept tensor, tile by tile: a tile of gradients lies in the workspace, becomes the next version
 * of as many weights there, and goes to where the tensor's next version is kept.
 *
 *     poet_update update = poet_update_begin(args, output, weights, rule);   // its buffer begins the workspace
 *     for (each tile)
 *         poet_update_tile(&update, gradient, count);                        // `gradient` is overwritten
 *     status = poet_update_end(&update);
 */
#ifndef POET_KERNELS_UPDATE_H
#define POET_KERNELS_UPDATE_H

#include "poet/operator.h"

#include "descent.h"
#include "rounding.h"

#define POET_UPDATE_BUFFER_BYTES                                                        \
    512u /* a block of the card: at the begin of the workspace, for what fills none yet \
          */

typedef struct poet_update {
    const poet_op_args *args;
    uint32_t output;
    const float *weights; /* those of the next tile */
    poet_gradient_rule rule;
    uint32_t written; /* bytes */
    uint32_t waiting; /* bytes in the buffer */
    int status;
} poet_update;

poet_update poet_update_begin(const poet_op_args *args, uint32_t output, const float *weights, poet_gradient_rule rule);

/* Makes next weights of a gradient, where it lies. POET_E_NOT_FINITE if one of them is infinite or no number. */
int poet_update_descend(float rate, poet_gradient_rule rule, const float *weights, float *gradient, int32_t count);

/* Of an operator that ends with these parameters; a velocity it has none. */
static inline bool poet_update_suits(const poet_descent *descent)
{
    return poet_is_descent(descent) && descent->momentum_nano == 0;
}

void poet_update_tile(poet_update *update, float *gradient, int32_t count);

/* Writes what waits, and says whether all went well. What is not finite is not written. */
int poet_update_end(poet_update *update);

#endif
