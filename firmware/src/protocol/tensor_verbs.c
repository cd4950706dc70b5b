/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that move tensors between host and board: `put`, `scaled`, `get`, `batches`. */
#include <stddef.h>
#include <string.h>

#include "poet/normalise.h"
#include "reply.h"
#include "session.h"
#include "verbs.h"

#define MOST_GET_BYTES 224u

/* The bytes of a tensor that has a place in RAM for good: a resident or, with its number after those of the kept
 * tensors, one of the inference's own, in whose place a step computes. NULL for another one. */
static uint8_t *resident_bytes(poet_server *server, uint32_t index, uint32_t *size)
{
    const poet_model *model = server->built->model;
    if (index >= model->resident_count) {
        if (server->inference_status != POET_OK || index < (uint32_t)model->resident_count + model->kept_count) {
            return NULL;
        }
        index -= model->kept_count;
        model = server->built->inference->model;
        if (index >= model->resident_count) {
            return NULL;
        }
        poet_session_forget_traces(server);
        poet_session_forget_sums(server, model);
    }
    *size = model->residents[index].bytes;
    return server->ram + model->residents[index].offset;
}

/* A tensor on the card, which has its number after the residents; NULL if there is none. */
static const poet_kept *kept_tensor(const poet_server *server, uint32_t index)
{
    const poet_model *model = server->built->model;
    const uint32_t place = index - model->resident_count;
    return index >= model->resident_count && place < model->kept_count ? &model->kept[place] : NULL;
}

static int put_bytes(poet_server *server, uint32_t index, uint32_t offset, const uint8_t *data, uint32_t count)
{
    uint32_t size;
    uint8_t *bytes = resident_bytes(server, index, &size);
    const poet_kept *kept = kept_tensor(server, index);
    if (bytes != NULL) {
        if (count > size || offset > size - count) {
            return POET_E_ARGUMENT;
        }
        memcpy(bytes + offset, data, count);
        return POET_OK;
    }
    int status = kept != NULL ? poet_session_record(server, true) : POET_E_ARGUMENT;
    if (status == POET_OK) {
        status = poet_record_put(&server->record, kept, offset, data, count);
        poet_session_note(server, status);
    }
    return status;
}

static int get_bytes(poet_server *server, uint32_t index, uint32_t offset, uint8_t *data, uint32_t count)
{
    uint32_t size;
    const uint8_t *bytes = resident_bytes(server, index, &size);
    const poet_kept *kept = kept_tensor(server, index);
    if (bytes != NULL) {
        if (count > size || offset > size - count) {
            return POET_E_ARGUMENT;
        }
        memcpy(data, bytes + offset, count);
        return POET_OK;
    }
    int status = kept != NULL ? poet_session_record(server, false) : POET_E_ARGUMENT;
    if (status == POET_OK) {
        status = poet_record_get(&server->record, kept, offset, data, count);
        poet_session_note(server, status);
    }
    return status;
}

int poet_verb_put(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t index;
    uint32_t offset;
    uint8_t data[POET_LINE_BYTES / 2u];
    uint32_t count;
    if (!poet_argument_unsigned(&arguments, &index) || !poet_argument_unsigned(&arguments, &offset) ||
        !poet_argument_bytes(arguments, sizeof data, data, &count)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: put INDEX offset hex, lower case");
    }
    const int status = put_bytes(server, index, offset, data, count);
    if (status != POET_OK) {
        return poet_session_fail(answer, status);
    }
    poet_reply_number(answer, "bytes", count);
    return POET_OK;
}

/* u8, i8 or i16 with a space after it. */
static bool read_type(const char **cursor, poet_number *type)
{
    static const char *const names[] = {"u8", "i8", "i16"};
    if (!poet_read_char(cursor, ' ')) {
        return false;
    }
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (poet_read_word(cursor, names[i])) {
            *type = (poet_number)(POET_NUMBER_U8 + i);
            return true;
        }
    }
    return false;
}

static bool read_f32(const char **cursor, float *number)
{
    uint32_t bits;
    if (!poet_read_char(cursor, ' ') || !poet_read_hex(cursor, 8, &bits)) {
        return false;
    }
    memcpy(number, &bits, sizeof *number);
    return true;
}

/* Small integers of one channel, normalised where they arrive. */
int poet_verb_scaled(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t index;
    uint32_t first;
    poet_number type;
    float shift;
    float scale;
    uint8_t data[POET_LINE_BYTES / 2u];
    uint32_t bytes;
    if (!poet_argument_unsigned(&arguments, &index) || !poet_argument_unsigned(&arguments, &first) ||
        !read_type(&arguments, &type) || !read_f32(&arguments, &shift) || !read_f32(&arguments, &scale) ||
        !poet_argument_bytes(arguments, sizeof data, data, &bytes) || bytes % poet_number_bytes(type) != 0) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: scaled INDEX number u8|i8|i16 SHIFT SCALE hex");
    }
    uint32_t size;
    uint8_t *tensor = resident_bytes(server, index, &size);
    const uint32_t count = bytes / poet_number_bytes(type);
    if (tensor == NULL || count > size / 4u || first > size / 4u - count) {
        return poet_reply_finish(answer, POET_E_ARGUMENT);
    }
    poet_normalise(type, shift, scale, data, count, tensor + 4u * first);
    poet_reply_number(answer, "numbers", count);
    return POET_OK;
}

int poet_verb_get(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t index;
    uint32_t offset;
    uint32_t count;
    uint8_t data[MOST_GET_BYTES];
    if (!poet_argument_unsigned(&arguments, &index) || !poet_argument_unsigned(&arguments, &offset) ||
        !poet_argument_unsigned(&arguments, &count) || !poet_arguments_end(arguments) || count > MOST_GET_BYTES) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: get INDEX offset count, count at most 224");
    }
    const int status = get_bytes(server, index, offset, data, count);
    if (status != POET_OK) {
        return poet_session_fail(answer, status);
    }
    poet_reply_key(answer, "data");
    for (uint32_t i = 0; i < count; i++) {
        poet_text_hex(answer, data[i], 2);
    }
    return POET_OK;
}

/* How many batches the card holds from now on; their tensors are to be put there anew. */
int poet_verb_batches(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t count;
    if (!poet_argument_unsigned(&arguments, &count) || !poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: batches COUNT");
    }
    if (!poet_session_keeps_tensors(server)) {
        return poet_reply_fail(answer, POET_E_UNSUPPORTED, "the built model keeps no tensors on the card");
    }
    if ((count > 0) != (server->built->model->batch_blocks > 0)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "at least 1 batch; 0 of a model whose batch is in RAM");
    }
    int status = poet_session_record(server, true);
    if (status == POET_OK || status == POET_E_ABSENT) {
        server->preparing = status == POET_E_ABSENT || server->preparing;
        status = server->card_up ? poet_record_set_batches(&server->record, count) : POET_E_ABSENT;
    }
    if (status != POET_OK) {
        server->preparing = false;
        return poet_reply_finish(answer, status);
    }
    poet_reply_number(answer, "batches", count);
    return POET_OK;
}
