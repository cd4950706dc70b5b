/* SPDX-License-Identifier: Apache-2.0 */
/* An update of a kept tensor and its states, tile by tile: a tile of gradients lies in the workspace, becomes the next
 * version of as many weights there, and goes to where the tensor's next version is kept.
 *
 *     poet_update update = poet_update_begin(args, &descent, 2, 1, 0, false, room); // its buffer begins the workspace
 *     for (each tile)
 *         poet_update_tile(&update, gradient, count, is_last);               // `gradient` is overwritten
 *     status = poet_update_end(&update);
 */
#ifndef POET_KERNELS_UPDATE_H
#define POET_KERNELS_UPDATE_H

#include "poet/operator.h"

#include "adam.h"

#define POET_MOST_STATES 2u
#define POET_UPDATE_BUFFER_BYTES                                                        \
    512u /* a block of the card: at the begin of the workspace, for what fills none yet \
          */

/* One output, written from its begin to its end. */
typedef struct poet_update_writer {
    uint32_t output;
    uint8_t *buffer;  /* a block */
    uint32_t written; /* bytes */
    uint32_t waiting; /* bytes in the buffer */
} poet_update_writer;

typedef struct poet_update {
    const poet_op_args *args;
    const poet_descent *descent;
    const float *weights;             /* those of the next tile */
    int32_t done;                     /* elements */
    const poet_adam_factors *factors; /* NULL: not Adam */
    uint32_t states;
    uint32_t first_state, apart;                  /* the inputs of states */
    bool streamed;                                /* they are read from the card */
    float *next_states;                           /* room for those of a tile */
    poet_update_writer out[1 + POET_MOST_STATES]; /* the weights', then the states' */
    int status;
} poet_update;

/* Behind a block and a tile of gradients in the workspace: what states take, a block and a tile each. */
static inline uint32_t poet_update_state_bytes(const poet_descent *descent, uint32_t tile_bytes)
{
    return poet_descent_states(descent) * (POET_UPDATE_BUFFER_BYTES + tile_bytes);
}

/* Of a tensor of an operator that has so many, which begin at input `first`, states behind them; outputs likewise.
 * `room` is for states (poet_update_state_bytes). */
poet_update poet_update_begin(const poet_op_args *args, const poet_descent *descent, uint32_t first, uint32_t tensors,
                              uint32_t tensor, bool streamed, void *room);

/* Makes next weights of a gradient, where it lies. POET_E_NOT_FINITE if one of them is infinite or no number. */
int poet_update_descend(float rate, poet_gradient_rule rule, const float *weights, float *gradient, int32_t count);

/* The states of an operator that ends with these parameters: inputs behind all others, outputs behind all others, one
 * for each output, then the next for each; of one that streams its weights, those of the weights are streamed, too.
 * Adam's factors are the last input. */
int poet_update_add_states(int status, const poet_descent *descent, int32_t rows, int32_t tile_rows, poet_sizes *sizes);

void poet_update_tile(poet_update *update, float *gradient, int32_t count, bool is_last);

/* Writes what waits, and says whether all went well. What is not finite is not written. */
int poet_update_end(poet_update *update);

#endif
