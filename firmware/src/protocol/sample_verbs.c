/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs of a data set on the card: `block` writes it, `set` looks at it, `samples` makes a batch of it. */
#include <string.h>

#include "poet/sample_set.h"
#include "reply.h"
#include "session.h"
#include "verbs.h"

/* Opens the card, and refuses a block that the plan's pages may overwrite. */
static int open_behind_pages(poet_server *server, uint32_t block)
{
    uint32_t first = 0;
    const int status = poet_session_behind_pages(server, &first);
    return status != POET_OK || (block >= first && block < server->card.block_count) ? status : POET_E_ARGUMENT;
}

/* Ends a verb; does nothing for POET_OK. */
static int fail(poet_server *server, poet_text *answer, int status)
{
    poet_session_note(server, status);
    switch (status) {
    case POET_E_ARGUMENT:
        return poet_reply_fail(answer, status, "not after the plan's pages, not on the card, or not in the set");
    case POET_E_CORRUPT:
        return poet_reply_fail(answer, status, "a sample on the card is damaged");
    case POET_E_UNSUPPORTED:
        return poet_reply_fail(answer, status, "the built model has no batch in RAM");
    default:
        return poet_reply_finish(answer, status);
    }
}

static int open_set(poet_server *server, uint32_t block, poet_sample_set *set, poet_text *answer)
{
    int status = open_behind_pages(server, block);
    if (status != POET_OK) {
        return fail(server, answer, status);
    }
    status = poet_sample_set_open(set, &server->card, block, server->built->model);
    if (status == POET_E_ABSENT) {
        return poet_reply_fail(answer, status, "no data set for this model begins there");
    }
    return fail(server, answer, status);
}

int poet_verb_set(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t block;
    poet_sample_set set;
    if (!poet_argument_unsigned(&arguments, &block) || !poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: set BLOCK");
    }
    int status = open_set(server, block, &set, answer);
    if (status != POET_OK) {
        return status;
    }
    status = server->card.sync(server->card.context); /* it may have been written just now */
    if (status != POET_OK) {
        return fail(server, answer, status);
    }
    poet_reply_number(answer, "samples", set.count);
    poet_reply_hex(answer, "check", set.check, 8);
    return POET_OK;
}

/* Writes some bytes of a block; from its first byte on, what lies after them becomes zeros. */
static int write_part(const poet_block_device *card, uint32_t block, uint32_t offset, const uint8_t *data,
                      uint32_t count)
{
    uint8_t whole[POET_BLOCK_BYTES] = {0};
    if (count == 0 || count > sizeof whole || offset > sizeof whole - count) {
        return POET_E_ARGUMENT;
    }
    const int status = offset > 0 ? card->read(card->context, block, whole, sizeof whole) : POET_OK;
    memcpy(whole + offset, data, count);
    return status != POET_OK ? status : card->write(card->context, block, whole, sizeof whole);
}

int poet_verb_block(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t block;
    uint32_t offset;
    uint8_t data[POET_LINE_BYTES / 2u];
    uint32_t count;
    if (!poet_argument_unsigned(&arguments, &block) || !poet_argument_unsigned(&arguments, &offset) ||
        !poet_argument_bytes(arguments, sizeof data, data, &count)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: block BLOCK offset hex, lower case");
    }
    int status = open_behind_pages(server, block);
    if (status == POET_OK) {
        status = write_part(&server->card, block, offset, data, count);
    }
    if (status != POET_OK) {
        return fail(server, answer, status);
    }
    poet_reply_number(answer, "bytes", count);
    return POET_OK;
}

int poet_verb_samples(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t block;
    uint32_t place;
    uint32_t number;
    poet_sample_set set;
    if (!poet_argument_unsigned(&arguments, &block) || !poet_argument_unsigned(&arguments, &place)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: samples BLOCK PLACE number...");
    }
    int status = open_set(server, block, &set, answer);
    if (status != POET_OK) {
        return status;
    }
    uint32_t count = 0;
    for (; status == POET_OK && !poet_arguments_end(arguments); count++) {
        status = poet_argument_unsigned(&arguments, &number)
                     ? poet_sample_set_read(&set, server->built->model, number, server->ram, place + count)
                     : POET_E_ARGUMENT;
    }
    if (status != POET_OK) {
        return fail(server, answer, status);
    }
    poet_reply_number(answer, "samples", count);
    return POET_OK;
}
