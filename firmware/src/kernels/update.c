/* SPDX-License-Identifier: Apache-2.0 */
#include "update.h"

#include <string.h>

#include "poet/finite.h"

poet_update poet_update_begin(const poet_op_args *args, uint32_t output, const float *weights, poet_gradient_rule rule)
{
    return (poet_update){.args = args, .output = output, .weights = weights, .rule = rule, .status = POET_OK};
}

static void write(poet_update *update, const void *data, uint32_t bytes)
{
    const poet_op_args *args = update->args;
    if (bytes == 0 || update->status != POET_OK) {
        return;
    }
    if (args->sink == NULL) {
        memcpy((uint8_t *)args->outputs[update->output] + update->written, data, bytes);
    } else {
        update->status = args->sink->write(args->sink->context, update->output, data, bytes);
    }
    update->written += bytes;
}

/* Fills the waiting block first, writes whole blocks from where they lie, and lets the rest wait. */
static void add(poet_update *update, const uint8_t *data, uint32_t bytes)
{
    uint8_t *buffer = update->args->workspace;
    if (update->waiting > 0) {
        const uint32_t missing = POET_UPDATE_BUFFER_BYTES - update->waiting;
        const uint32_t part = bytes < missing ? bytes : missing;
        memcpy(buffer + update->waiting, data, part);
        update->waiting += part;
        data += part;
        bytes -= part;
        if (update->waiting < POET_UPDATE_BUFFER_BYTES) {
            return;
        }
        write(update, buffer, POET_UPDATE_BUFFER_BYTES);
    }
    update->waiting = bytes % POET_UPDATE_BUFFER_BYTES;
    write(update, data, bytes - update->waiting);
    memcpy(buffer, data + (bytes - update->waiting), update->waiting);
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

void poet_update_tile(poet_update *update, float *gradient, int32_t count)
{
    const int status = poet_update_descend(update->args->learning_rate, update->rule, update->weights, gradient, count);
    update->status = update->status == POET_OK ? status : update->status;
    update->weights += count;
    add(update, (const uint8_t *)gradient, (uint32_t)count * (uint32_t)sizeof *gradient);
}

int poet_update_end(poet_update *update)
{
    write(update, update->args->workspace, update->waiting);
    update->waiting = 0;
    return update->status;
}
