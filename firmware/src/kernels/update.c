/* SPDX-License-Identifier: Apache-2.0 */
#include "update.h"

#include <string.h>

#include "poet/finite.h"

#include "stream.h"

poet_update poet_update_begin(const poet_op_args *args, const poet_descent *descent, uint32_t first, uint32_t tensors,
                              uint32_t tensor, bool streamed, void *room)
{
    poet_update update = {.args = args,
                          .descent = descent,
                          .weights = args->inputs[first + tensor],
                          .weights_out = {.output = tensor, .buffer = args->workspace},
                          .status = POET_OK};
    if (descent->momentum_nano > 0) {
        update.velocity_input = first + tensors + tensor;
        update.streamed = streamed;
        update.velocity_out = (poet_update_writer){.output = tensors + tensor, .buffer = room};
        update.next_velocity = (float *)room + POET_UPDATE_BUFFER_BYTES / sizeof(float);
    }
    return update;
}

int poet_update_add_velocities(int status, const poet_descent *descent, int32_t rows, int32_t tile_rows,
                               poet_sizes *sizes)
{
    if (status != POET_OK || !poet_is_descent(descent)) {
        return status != POET_OK ? status : POET_E_ARGUMENT;
    }
    const uint32_t tensors = sizes->outputs;
    if (descent->momentum_nano > 0) {
        for (uint32_t i = 0; i < tensors; i++) {
            sizes->input_bytes[sizes->inputs + i] = sizes->output_bytes[i];
            sizes->output_bytes[tensors + i] = sizes->output_bytes[i];
        }
        sizes->kept_also = (sizes->kept & POET_KEPT_INPUT) != 0 ? 1u << sizes->inputs : 0u;
        sizes->inputs += tensors;
        sizes->outputs += tensors;
        const uint32_t row_bytes = sizes->output_bytes[0] / (uint32_t)rows;
        sizes->workspace_bytes += poet_update_velocity_bytes(descent, row_bytes * (uint32_t)tile_rows);
    }
    return POET_OK;
}

static void write(poet_update *update, poet_update_writer *out, const void *data, uint32_t bytes)
{
    const poet_op_args *args = update->args;
    if (bytes == 0 || update->status != POET_OK) {
        return;
    }
    if (args->sink == NULL) {
        memcpy((uint8_t *)args->outputs[out->output] + out->written, data, bytes);
    } else {
        update->status = args->sink->write(args->sink->context, out->output, data, bytes);
    }
    out->written += bytes;
}

/* Fills the waiting block first, writes whole blocks from where they lie, and lets the rest wait. */
static void add(poet_update *update, poet_update_writer *out, const uint8_t *data, uint32_t bytes)
{
    if (out->waiting > 0) {
        const uint32_t missing = POET_UPDATE_BUFFER_BYTES - out->waiting;
        const uint32_t part = bytes < missing ? bytes : missing;
        memcpy(out->buffer + out->waiting, data, part);
        out->waiting += part;
        data += part;
        bytes -= part;
        if (out->waiting < POET_UPDATE_BUFFER_BYTES) {
            return;
        }
        write(update, out, out->buffer, POET_UPDATE_BUFFER_BYTES);
    }
    out->waiting = bytes % POET_UPDATE_BUFFER_BYTES;
    write(update, out, data, bytes - out->waiting);
    memcpy(out->buffer, data + (bytes - out->waiting), out->waiting);
}

int poet_update_descend(float rate, poet_gradient_rule rule, const float *weights, float *gradient, int32_t count)
{
    uint32_t marks = 0;
    for (int32_t i = 0; i < count; i++) {
        const float next = weights[i] - rate * poet_ruled_gradient(&rule, gradient[i], weights[i]);
        gradient[i] = next;
        marks |= poet_finite_mark(next);
    }
    return (marks & POET_NOT_FINITE) == 0 ? POET_OK : POET_E_NOT_FINITE;
}

/* The next velocities of a tile, and in place of its gradients what the weights descend by. */
static void gather(poet_update *update, float *gradient, int32_t count)
{
    const poet_gradient_rule rule = poet_gradient_rule_of(update->descent->clip_f32, update->descent->decay_f32);
    const float momentum = poet_from_nano(update->descent->momentum_nano);
    const uint32_t input = update->velocity_input;
    float *const next = update->next_velocity;
    const float *before = (const float *)update->args->inputs[input] + update->done;
    if (update->streamed) {
        int status = poet_stream_start_read(update->args, input, update->done, count, next);
        if (status == POET_OK) {
            before = poet_stream_finish_read(update->args, input, update->done, next, &status);
        }
        if (status != POET_OK) {
            update->status = update->status == POET_OK ? status : update->status;
            return;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        const float g = poet_ruled_gradient(&rule, gradient[i], update->weights[i]);
        const float v = momentum * before[i] + g;
        next[i] = v;
        gradient[i] = update->descent->nesterov == 1 ? g + momentum * v : v;
    }
    add(update, &update->velocity_out, (const uint8_t *)next, (uint32_t)count * (uint32_t)sizeof *gradient);
}

void poet_update_tile(poet_update *update, float *gradient, int32_t count)
{
    const bool moves = update->next_velocity != NULL;
    if (moves) {
        gather(update, gradient, count);
    }
    const poet_gradient_rule rule =
        moves ? poet_no_rule : poet_gradient_rule_of(update->descent->clip_f32, update->descent->decay_f32);
    const int status = poet_update_descend(update->args->learning_rate, rule, update->weights, gradient, count);
    update->status = update->status == POET_OK ? status : update->status;
    update->weights += count;
    update->done += count;
    add(update, &update->weights_out, (const uint8_t *)gradient, (uint32_t)count * (uint32_t)sizeof *gradient);
}

static void finish(poet_update *update, poet_update_writer *out)
{
    write(update, out, out->buffer, out->waiting);
    out->waiting = 0;
}

int poet_update_end(poet_update *update)
{
    finish(update, &update->weights_out);
    finish(update, &update->velocity_out);
    return update->status;
}
