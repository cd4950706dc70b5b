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
                          .factors = descent->adam == 1 ? args->inputs[first + 3u * tensors] : NULL,
                          .states = poet_descent_states(descent),
                          .first_state = first + tensors + tensor,
                          .apart = tensors,
                          .streamed = streamed,
                          .out = {{.output = tensor, .buffer = args->workspace}},
                          .status = POET_OK};
    uint8_t *buffer = room;
    for (uint32_t i = 1; i <= update.states; i++, buffer += POET_UPDATE_BUFFER_BYTES) {
        update.out[i] = (poet_update_writer){.output = i * tensors + tensor, .buffer = buffer};
    }
    update.next_states = (float *)(void *)buffer;
    return update;
}

int poet_update_add_states(int status, const poet_descent *descent, int32_t rows, int32_t tile_rows, poet_sizes *sizes)
{
    if (status != POET_OK || !poet_is_descent(descent)) {
        return status != POET_OK ? status : POET_E_ARGUMENT;
    }
    const uint32_t tensors = sizes->outputs;
    for (uint32_t state = 0; state < poet_descent_states(descent); state++) {
        sizes->kept_also |= (sizes->kept & POET_KEPT_INPUT) != 0 ? 1u << sizes->inputs : 0u;
        for (uint32_t i = 0; i < tensors; i++) {
            sizes->not_negative |= state == 1u ? 1u << sizes->inputs : 0u;
            sizes->input_bytes[sizes->inputs++] = sizes->output_bytes[i];
            sizes->output_bytes[sizes->outputs++] = sizes->output_bytes[i];
        }
    }
    if (descent->adam == 1) {
        sizes->not_negative |= 1u << sizes->inputs;
        sizes->input_bytes[sizes->inputs++] = sizeof(poet_adam_factors);
    }
    const uint32_t row_bytes = sizes->output_bytes[0] / (uint32_t)rows;
    sizes->workspace_bytes += poet_update_state_bytes(descent, row_bytes * (uint32_t)tile_rows);
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

/* Fills the waiting block first, writes whole blocks from where they lie, and lets the rest wait, unless nothing
 * follows: a transfer of its own would take a card as long as two blocks more. */
static void add(poet_update *update, poet_update_writer *out, const uint8_t *data, uint32_t bytes, bool is_last)
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
    out->waiting = is_last ? 0u : bytes % POET_UPDATE_BUFFER_BYTES;
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

/* Present states of a tile; those of streamed weights arrive where their next versions go. */
static int read_states(const poet_update *update, int32_t count, float *const *next, const float **before)
{
    int status = POET_OK;
    for (uint32_t i = 0; status == POET_OK && i < update->states; i++) {
        const uint32_t input = update->first_state + i * update->apart;
        before[i] = (const float *)update->args->inputs[input] + update->done;
        if (update->streamed) {
            status = poet_stream_start_read(update->args, input, update->done, count, next[i]);
        }
        if (update->streamed && status == POET_OK) {
            before[i] = poet_stream_finish_read(update->args, input, update->done, next[i], &status);
        }
    }
    return status;
}

/* The next velocities of a tile, and in place of its gradients what the weights descend by. */
static void move(const poet_descent *descent, const float *weights, const float *before, float *next, float *gradient,
                 int32_t count)
{
    const poet_gradient_rule rule = poet_gradient_rule_of(descent->clip_f32, descent->decay_f32);
    const float momentum = poet_from_nano(descent->momentum_nano);
    for (int32_t i = 0; i < count; i++) {
        const float g = poet_ruled_gradient(&rule, gradient[i], weights[i]);
        const float v = momentum * before[i] + g;
        next[i] = v;
        gradient[i] = descent->nesterov == 1 ? g + momentum * v : v;
    }
}

static int are_finite(const float *numbers, int32_t count)
{
    uint32_t marks = 0;
    for (int32_t i = 0; i < count; i++) {
        marks |= poet_finite_mark(numbers[i]);
    }
    return (marks & POET_NOT_FINITE) == 0 ? POET_OK : POET_E_NOT_FINITE;
}

/* Next weights in place of gradients. */
static int descend(const poet_update *update, float *const *next, float *gradient, int32_t count)
{
    const poet_op_args *args = update->args;
    const poet_descent *descent = update->descent;
    const float *before[1 + POET_MOST_STATES] = {update->weights};
    const int status = read_states(update, count, next, before + 1);
    if (status != POET_OK) {
        return status;
    }
    poet_gradient_rule rule = poet_gradient_rule_of(descent->clip_f32, descent->decay_f32);
    if (update->factors != NULL) {
        poet_adam_descend(*update->factors, rule, poet_from_bits(descent->eps_f32), count, gradient, before, gradient,
                          next[0], next[1]);
        return are_finite(gradient, count);
    }
    if (descent->momentum_nano > 0) {
        move(descent, update->weights, before[1], next[0], gradient, count);
        rule = poet_no_rule;
    }
    return poet_update_descend(args->learning_rate, rule, update->weights, gradient, count);
}

void poet_update_tile(poet_update *update, float *gradient, int32_t count, bool is_last)
{
    float *const next[POET_MOST_STATES] = {update->next_states, update->next_states + count};
    const int status = descend(update, next, gradient, count);
    const uint32_t bytes = (uint32_t)count * (uint32_t)sizeof *gradient;
    update->status = update->status == POET_OK ? status : update->status;
    update->weights += count;
    update->done += count;
    for (uint32_t i = 0; i < update->states; i++) {
        add(update, &update->out[1 + i], (const uint8_t *)next[i], bytes, is_last);
    }
    add(update, &update->out[0], (const uint8_t *)gradient, bytes, is_last);
}

int poet_update_end(poet_update *update)
{
    for (uint32_t i = 0; i <= update->states; i++) {
        write(update, &update->out[i], update->out[i].buffer, update->out[i].waiting);
        update->out[i].waiting = 0;
    }
    return update->status;
}
