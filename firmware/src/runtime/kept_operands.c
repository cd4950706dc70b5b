/* SPDX-License-Identifier: Apache-2.0 */
#include "kept_operands.h"

#include <string.h>

#include "poet/pager.h"

#include "runner_parts.h"

/* So many tensors of an operator take turns: one with two states. From the first on they are operands 0, 1 and 2, or 0,
 * 2 and 4, where a bias and its states lie between them: in either case their remainders differ. */
#define TURNS 3u

/* How far a next version is. */
typedef struct writing {
    uint32_t done;
    uint32_t block;
    uint32_t crc;
} writing;

/* What was read of an input from its begin on. */
typedef struct reading {
    uint32_t done;
    uint32_t crc;
} reading;

/* The kept tensors of one node, while its operator runs; of an update whose states alone are kept, its parameter lies
 * in RAM, and is read and written there. */
typedef struct kept_operands {
    const poet_op_args *args;
    const poet_model *model;
    const uint32_t *inputs; /* words of the schedule */
    const uint32_t *outputs;
    poet_record *record;
    poet_pager *pager;

    writing written[TURNS];
    reading read[TURNS];

    struct { /* the transfer under way */
        poet_kept_place place;
        const void *data;
        uint32_t bytes;
        reading *in_order; /* NULL: it does not go on from what was read before */
    } transfer;
} kept_operands;

/* The kept tensor of an operand; NULL where it is in RAM. */
static const poet_kept *kept_of(const poet_model *model, uint32_t word)
{
    return (word & POET_WORD_KEPT) != 0 ? &model->kept[word >> POET_WORD_KEPT_SHIFT] : NULL;
}

static int write(void *context, uint32_t output, const void *data, uint32_t bytes)
{
    kept_operands *operands = context;
    writing *const out = &operands->written[output % TURNS];
    const poet_kept *kept = kept_of(operands->model, operands->outputs[output]);
    const poet_block_device *device = operands->record->device;
    int status = POET_OK;
    if (kept == NULL) {
        memcpy((uint8_t *)operands->args->outputs[output] + out->done, data, bytes);
        out->done += bytes;
        return POET_OK;
    }
    if (out->done == 0) {
        out->crc = 0;
        status = poet_record_begin(operands->record, kept, 0, &out->block);
    }
    if (status == POET_OK) {
        status =
            bytes <= kept->bytes - out->done ? device->write(device->context, out->block, data, bytes) : POET_E_CORRUPT;
    }
    if (status != POET_OK) {
        return status;
    }
    out->crc = poet_pager_crc(device, out->crc, data, bytes);
    out->block += bytes / POET_BLOCK_BYTES;
    out->done += bytes;
    if (out->done == kept->bytes) {
        poet_record_end(operands->record, kept, out->crc);
        out->done = 0;
    }
    return POET_OK;
}

static int write_row(void *context, uint32_t output, uint32_t row, void *before, const void *after)
{
    const kept_operands *operands = context;
    const poet_kept *kept = kept_of(operands->model, operands->outputs[output]);
    const poet_block_device *device = operands->record->device;
    const uint32_t bytes = kept->bytes / kept->rows;
    const uint32_t crc_before = poet_pager_crc(device, row, before, bytes);
    uint32_t block;
    int status = poet_record_begin(operands->record, kept, row, &block);
    if (status == POET_OK) {
        status = device->write(device->context, block, after, bytes);
    }
    if (status == POET_OK && !device->forgets) {
        status = device->read(device->context, block, before, bytes);
    }
    if (status == POET_OK && !device->forgets && memcmp(before, after, bytes) != 0) {
        status = POET_E_CORRUPT;
    }
    if (status == POET_OK) {
        poet_record_end_row(operands->record, kept, row, crc_before, poet_pager_crc(device, row, after, bytes));
    }
    return status;
}

static int read(void *context, uint32_t input, uint32_t offset, void *data, uint32_t bytes)
{
    kept_operands *operands = context;
    const poet_kept *kept = kept_of(operands->model, operands->inputs[input]);
    if (kept == NULL) {
        operands->transfer.in_order = NULL;
        memcpy(data, (const uint8_t *)operands->args->inputs[input] + offset, bytes);
        return POET_OK;
    }
    const uint32_t row_bytes = kept->bytes / kept->rows;
    const uint32_t row = offset / row_bytes;
    offset %= row_bytes;
    if (offset % POET_BLOCK_BYTES != 0 || bytes > row_bytes || offset > row_bytes - bytes) {
        return POET_E_ARGUMENT;
    }
    reading *const in = &operands->read[input % TURNS];
    int status = poet_pager_wait(operands->pager);
    if (status == POET_OK) {
        status = poet_record_find(operands->record, kept, row, &operands->transfer.place);
    }
    if (status != POET_OK) {
        return status;
    }
    if (offset == 0) {
        in->done = 0;
        in->crc = 0;
    }
    operands->transfer.in_order = offset == in->done ? in : NULL;
    operands->transfer.data = data;
    operands->transfer.bytes = bytes;
    return poet_pager_start_unchecked_in(operands->pager, operands->transfer.place.block + offset / POET_BLOCK_BYTES,
                                         data, bytes);
}

static int wait(void *context)
{
    const kept_operands *operands = context;
    const poet_kept_place *place = &operands->transfer.place;
    reading *const in = operands->transfer.in_order;
    const int status = poet_pager_wait(operands->pager);
    if (status != POET_OK || in == NULL || !place->checked) {
        return status;
    }
    in->crc = poet_pager_crc(operands->record->device, in->crc, operands->transfer.data, operands->transfer.bytes);
    in->done += operands->transfer.bytes;
    return in->done < place->bytes || in->crc == place->crc ? POET_OK : POET_E_CORRUPT;
}

/* A unit that no node has written would count on as it was, and nobody would see it. */
static bool all_are_written(const poet_record *record)
{
    for (uint32_t i = 0; i < record->model->kept_count; i++) {
        const uint16_t check = record->model->kept[i].check;
        if (check < record->model->unit_count && !record->checks[check].written) {
            return false;
        }
    }
    return true;
}

static int commit(const poet_runner *runner, poet_record *record)
{
    const int status = poet_runner_check_loss(runner);
    if (status != POET_OK) {
        return status;
    }
    return all_are_written(record) ? poet_record_end_step(record) : POET_E_ORDER;
}

/* As a page-in, from where the card keeps the tensor. */
static int fetch(const poet_run *run, const poet_kept *kept, void *data)
{
    poet_kept_place place;
    int status = poet_pager_wait(run->pager); /* a batch's check is read from the card */
    if (status == POET_OK) {
        status = poet_record_find(run->record, kept, 0, &place);
    }
    if (status != POET_OK) {
        return status;
    }
    return place.checked ? poet_pager_start_in(run->pager, place.block, data, place.bytes, place.crc)
                         : poet_pager_start_unchecked_in(run->pager, place.block, data, place.bytes);
}

/* As a page-out, to where the tensor's next version belongs. */
static int store(const poet_runner *runner, const poet_run *run, const poet_kept *kept, const void *data)
{
    uint32_t block;
    uint32_t crc;
    int status = poet_runner_check_loss(runner);
    if (status == POET_OK) {
        status = poet_record_begin(run->record, kept, 0, &block);
    }
    if (status == POET_OK) {
        status = poet_pager_start_out(run->pager, block, data, kept->bytes, &crc);
    }
    if (status == POET_OK) {
        poet_record_end(run->record, kept, crc);
    }
    return status;
}

/* An operator that reads or writes the card by itself. */
static int compute(const poet_run *run, const poet_model *model, const uint32_t *inputs, const uint32_t *outputs,
                   const poet_operator *operator, poet_op_args *args)
{
    kept_operands operands = {args, model, inputs, outputs, .record = run->record, .pager = run->pager};
    const poet_sink sink = {&operands, write, write_row};
    const poet_source source = {
        .context = &operands,
        .overlaps = run->pager != NULL && run->pager->device->start_read != NULL,
        .read = read,
        .wait = wait,
    };
    args->sink = &sink;
    args->source = &source;
    const int status = operator->run(args);
    args->sink = NULL;
    args->source = NULL;
    return status;
}

static int run_call(const poet_runner *runner, const poet_run *run, const poet_call *call,
                    const poet_operator *operator, poet_op_args *args)
{
    const uint32_t *words = runner->schedule->words + call->words;
    const uint32_t *outputs = words + call->inputs;
    switch (operator->code) {
    case POET_OP_COMMIT:
        return commit(runner, run->record);
    case POET_OP_FETCH:
        return fetch(run, kept_of(runner->model, words[0]), args->outputs[0]);
    case POET_OP_STORE:
        return store(runner, run, kept_of(runner->model, outputs[0]), args->inputs[0]);
    default:
        break;
    }
    for (uint32_t i = 0; i < call->outputs; i++) {
        const int status = (outputs[i] & POET_WORD_KEPT) != 0 ? poet_runner_check_loss(runner) : POET_OK;
        if (status != POET_OK) {
            return status;
        }
    }
    return compute(run, runner->model, words, outputs, operator, args);
}

/* A tensor's next version may be written before the loss is known: the last step's loss must not speak for it. With
 * micro-batches it is a sum, and its own begin. */
static void begin(const poet_runner *runner, poet_record *record)
{
    const bool whole = runner->model->micro_batches == 1u;
    float *loss = whole && poet_record_ends_steps(runner->model) ? poet_loss_of(runner) : NULL;
    poet_record_forget(record);
    if (loss != NULL) {
        *loss = 0.0f;
    }
}

const poet_kept_ways poet_kept_on_card = {.run = run_call, .begin = begin};
