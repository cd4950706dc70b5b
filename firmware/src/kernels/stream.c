/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <stddef.h>

static bool are_whole_blocks(int32_t rows, int32_t row_floats)
{
    return (uint64_t)rows * (uint64_t)row_floats * sizeof(float) % POET_STREAM_BLOCK_BYTES == 0;
}

bool poet_stream_suits(int32_t rows, int32_t row_floats, int32_t tile)
{
    return tile == rows || (tile >= 1 && tile < rows && are_whole_blocks(tile, row_floats));
}

int poet_stream_start_read(const poet_op_args *args, uint32_t input, int32_t first, int32_t count, float *buffer)
{
    const poet_source *source = args->source;
    const uint32_t size = (uint32_t)sizeof *buffer;
    return source == NULL
               ? POET_OK
               : source->read(source->context, input, (uint32_t)first * size, buffer, (uint32_t)count * size);
}

const float *poet_stream_finish_read(const poet_op_args *args, uint32_t input, int32_t first, float *buffer,
                                     int *status)
{
    const poet_source *source = args->source;
    if (source == NULL) {
        *status = POET_OK;
        return (const float *)args->inputs[input] + first;
    }
    *status = source->wait(source->context);
    return *status == POET_OK ? buffer : NULL;
}

static int32_t rows_from(const poet_stream *stream, int32_t first)
{
    return stream->rows - first < stream->step ? stream->rows - first : stream->step;
}

/* The halves take turns. */
static float *buffer_of(const poet_stream *stream, int32_t first)
{
    const bool second = stream->halves && first / stream->step % 2 != 0;
    return stream->buffer + (second ? stream->step * stream->row_floats : 0);
}

static void start(poet_stream *stream, int32_t first)
{
    if (stream->status == POET_OK && first < stream->rows) {
        stream->status =
            poet_stream_start_read(stream->args, stream->input, first * stream->row_floats,
                                   rows_from(stream, first) * stream->row_floats, buffer_of(stream, first));
    }
}

poet_stream poet_stream_begin(const poet_op_args *args, uint32_t input, int32_t rows, int32_t row_floats, int32_t tile,
                              int32_t together, float *buffer)
{
    const bool halves = args->source != NULL && args->source->overlaps && tile < rows && tile % (2 * together) == 0 &&
                        are_whole_blocks(tile / 2, row_floats);
    poet_stream stream = {.args = args,
                          .input = input,
                          .rows = rows,
                          .row_floats = row_floats,
                          .buffer = buffer,
                          .step = halves ? tile / 2 : tile,
                          .halves = halves,
                          .status = POET_OK};
    if (halves) {
        start(&stream, 0);
    }
    return stream;
}

bool poet_stream_next(poet_stream *stream)
{
    const int32_t first = stream->first + stream->count;
    if (stream->status != POET_OK || first >= stream->rows) {
        return false;
    }
    if (!stream->halves) {
        start(stream, first);
    }
    if (stream->status == POET_OK) {
        stream->data = poet_stream_finish_read(stream->args, stream->input, first * stream->row_floats,
                                               buffer_of(stream, first), &stream->status);
    }
    stream->first = first;
    stream->count = rows_from(stream, first);
    if (stream->halves) {
        start(stream, first + stream->count);
    }
    return stream->status == POET_OK;
}
