/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a kept tensor tile by tile: some rows of it at a time, from the card into the workspace. A row is what belongs
 * to one output channel. Without a source the tensor lies in RAM and is read there.
 *
 *     poet_stream stream = poet_stream_begin(args, input, rows, row_floats, tile, together, buffer);
 *     while (poet_stream_next(&stream)) {
 *         ... stream.count rows from stream.first on, at stream.data
 *     }
 *     return stream.status;
 *
 * Where the card transfers while the CPU computes, and half a tile is whole blocks and rows that are computed together,
 * the buffer is used in halves: the one is computed while the other arrives.
 */
#ifndef POET_KERNELS_STREAM_H
#define POET_KERNELS_STREAM_H

#include <stdbool.h>

#include "poet/operator.h"

#include "rounding.h"

#define POET_STREAM_BLOCK_BYTES 512u /* of the card: tiles begin where blocks do */

typedef struct poet_stream {
    const poet_op_args *args;
    uint32_t input;
    int32_t rows, row_floats; /* of the whole tensor */
    float *buffer;
    int32_t step; /* rows at a time */
    bool halves;
    int32_t first, count; /* rows that `data` holds */
    const float *data;
    int status;
} poet_stream;

/* Whether tiles of so many rows are whole blocks, but for the last, or one is all. */
bool poet_stream_suits(int32_t rows, int32_t row_floats, int32_t tile);

poet_stream poet_stream_begin(const poet_op_args *args, uint32_t input, int32_t rows, int32_t row_floats, int32_t tile,
                              int32_t together, float *buffer);

/* False after the last rows, and after an error. */
bool poet_stream_next(poet_stream *stream);

/* One piece of an input: `finish` gives it, or NULL after an error. What is computed between the two costs no time
 * where the card transfers meanwhile. */
int poet_stream_start_read(const poet_op_args *args, uint32_t input, int32_t first, int32_t count, float *buffer);
const float *poet_stream_finish_read(const poet_op_args *args, uint32_t input, int32_t first, float *buffer,
                                     int *status);

#endif
