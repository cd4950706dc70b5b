/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs of training: `step` and its trace, `commit`, `restore`. */
#include <stddef.h>
#include <string.h>

#include "poet/board.h"
#include "poet/checkpoint.h"
#include "poet/finite.h"
#include "reply.h"
#include "session.h"
#include "verbs.h"

#define MOST_CALLS 24u

static uint32_t loss_bits(const poet_server *server)
{
    const float loss = poet_runner_loss(&server->runner);
    uint32_t bits;
    memcpy(&bits, &loss, sizeof bits);
    return bits;
}

static int fail_step(const poet_server *server, poet_text *answer, int status, const poet_run *run)
{
    const poet_record *record = run->record;
    if (status == POET_E_CORRUPT && record != NULL && poet_record_check_batch(record) == POET_E_CORRUPT) {
        answer->length = 0;
        poet_text_string(answer, "batch ");
        poet_text_decimal(answer, record->step % record->batches);
        poet_text_string(answer, " on the card is damaged");
        return status;
    }
    const bool of_loss = status == POET_E_NOT_FINITE && !poet_is_finite(poet_runner_loss(&server->runner));
    answer->length = 0;
    poet_text_string(answer, "call ");
    poet_text_decimal(answer, run->calls);
    poet_text_string(answer, ": ");
    poet_text_string(answer, of_loss ? "the loss is infinite or no number" : poet_explain(status));
    return status;
}

/* Which micro-batch comes; a model of one has no others to be told from. */
static bool read_part(const poet_server *server, const char **arguments, uint32_t *part)
{
    *part = 0;
    return server->built->model->micro_batches == 1u || poet_argument_unsigned(arguments, part);
}

int poet_verb_step(poet_server *server, const char *arguments, poet_text *answer)
{
    float rate;
    uint32_t trace;
    uint32_t part;
    if (!poet_argument_f32(&arguments, &rate) || !poet_runner_takes_rate(rate) ||
        !poet_argument_unsigned(&arguments, &trace) || trace > 1u || !read_part(server, &arguments, &part) ||
        !poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT,
                               "expected: step RATE 0|1, RATE the bits of a f32, finite and not negative; and the "
                               "number of the micro-batch, where there are several");
    }
    if (part == 0) {
        poet_runner_forget_sums(&server->runner);
    }
    if (part != server->runner.gathered) {
        return poet_reply_fail(answer, POET_E_ORDER, "another micro-batch follows; begin the batch anew with 0");
    }
    poet_run run = {.hooks = &server->hooks, .learning_rate = rate, .trace = trace == 1u};
    int status = POET_OK;
    const bool ends = poet_session_keeps_tensors(server) && poet_record_ends_steps(server->built->model);
    if (poet_session_keeps_tensors(server)) {
        status = poet_session_record(server, false);
        if (status != POET_OK) {
            return poet_session_fail(answer, status);
        }
        run.record = &server->record;
        if (ends) {
            status = poet_session_residents(server);
            poet_session_note(server, status);
        }
        if (!ends && server->residents_stale && poet_record_may_be_needed(server->runner.schedule)) {
            status = POET_E_ORDER; /* a step that failed has changed some of them */
        }
        if (status == POET_E_ORDER) {
            return poet_reply_fail(answer, status, "restore or commit first: the card has weights that are not in RAM");
        }
    }
    if (status == POET_OK && poet_runner_needs_card(&server->runner, run.trace)) {
        status = poet_session_pager(server);
        run.pager = &server->pager;
    }
    if (status != POET_OK) {
        return poet_reply_finish(answer, status);
    }
    poet_session_forget_traces(server);
    status = poet_runner_step(&server->runner, &run);
    poet_session_note(server, status);
    if (status < 0) {
        if (run.record != NULL) {
            poet_session_lose_residents(server);
            server->residents_stale = server->residents_stale || poet_record_may_be_needed(server->runner.schedule);
            server->record_known = false; /* the failure may have been that of the record itself */
        }
        return fail_step(server, answer, status, &run);
    }
    poet_reply_run(answer, &run);
    poet_reply_hex(answer, "loss", loss_bits(server), 8);
    if (server->built->model->micro_batches > 1u) {
        poet_reply_number(answer, "gathered", server->runner.gathered);
    }
    if (ends) {
        poet_reply_number(answer, "committed", run.record->committed);
    }
    if (ends && server->card.forgets) {
        poet_reply_number(answer, "lasting", server->lasting);
    }
    return POET_OK;
}

/* Some rows of the last step's trace. */
int poet_verb_times(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t first;
    uint32_t count;
    if (!poet_argument_unsigned(&arguments, &first) || !poet_argument_unsigned(&arguments, &count) ||
        !poet_arguments_end(arguments) || count > MOST_CALLS) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: times FIRST count, count at most 24");
    }
    poet_runner *runner = server->extractor.traced ? &server->extractor : &server->runner;
    const uint32_t calls = runner->schedule->call_count;
    if (first > calls || count > calls - first) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "the schedule has fewer calls");
    }
    poet_reply_key(answer, "ticks");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t ticks;
        const int status = poet_runner_read_trace(runner, &server->pager, first + i, &ticks);
        if (status == POET_E_ABSENT) {
            return poet_reply_fail(answer, status, "the last step was not traced, or its trace was lost");
        }
        if (status != POET_OK) {
            return poet_reply_finish(answer, status);
        }
        if (i > 0) {
            poet_text_char(answer, ',');
        }
        poet_text_decimal(answer, ticks);
    }
    return POET_OK;
}

static int commit_record(poet_server *server, uint32_t step_number, uint32_t *bytes)
{
    const int status = poet_record_commit(&server->record, step_number);
    if (status == POET_E_ORDER || status == POET_E_NOT_FINITE) {
        return status; /* nothing has been written */
    }
    server->record_known = status == POET_OK;
    server->record_status = status;
    server->residents_count = status == POET_OK;
    server->residents_stale = status != POET_OK;
    server->preparing = false;
    *bytes = poet_record_bytes(&server->record);
    return status;
}

int poet_verb_commit(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t step_number;
    if (!poet_argument_unsigned(&arguments, &step_number) || !poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: commit STEP");
    }
    int status = poet_session_keeps_tensors(server) ? poet_session_record(server, true) : poet_session_pager(server);
    if (status != POET_OK) {
        return poet_session_fail(answer, status);
    }
    uint32_t bytes;
    poet_board_window(true);
    const uint32_t before = poet_board_ticks();
    const bool keeps = poet_session_keeps_tensors(server);
    const int lasting = server->card.forgets ? poet_session_lasting(server) : POET_OK;
    status = keeps ? commit_record(server, step_number, &bytes) : lasting;
    if (status == POET_OK && lasting == POET_OK && (!keeps || server->card.forgets)) {
        status = poet_checkpoint_commit(&server->card, server->built->model, 0, server->ram,
                                        keeps ? &server->record : NULL, step_number, &bytes);
    }
    const uint32_t after = poet_board_ticks();
    poet_board_window(false);
    poet_session_note(server, status);
    if (status == POET_E_ORDER) {
        return poet_reply_fail(answer, status,
                               "not all tensors of the first record, or no batches, have been put on the card");
    }
    if (status != POET_OK) {
        return poet_reply_finish(answer, status);
    }
    poet_reply_number(answer, "ticks", after - before);
    poet_reply_number(answer, "bytes", bytes);
    if (server->card.forgets) {
        server->lasting = lasting == POET_OK ? step_number : server->lasting;
        poet_reply_number(answer, "lasts", lasting == POET_OK);
    }
    return POET_OK;
}

/* Memory has lost what it had, or is not to be believed, unless it was filled since the board's start. */
static int restore_lasting(poet_server *server)
{
    uint32_t bytes;
    int status = poet_record_load(&server->record, &server->card);
    if (status == POET_OK || status == POET_E_ABSENT) {
        status = poet_checkpoint_restore(&server->card, server->built->model, 0, server->ram, &server->record,
                                         &server->lasting, &bytes);
    }
    return status != POET_OK ? status : poet_record_take(&server->record, server->lasting);
}

static int restore_record(poet_server *server, uint32_t *step_number, uint32_t *bytes)
{
    const bool lost = server->card.forgets && !server->residents_count && !server->residents_stale;
    int status = lost ? poet_session_lasting(server) : POET_E_ABSENT;
    status = status == POET_OK ? restore_lasting(server) : status;
    if (status == POET_E_ABSENT) {
        status = poet_record_restore(&server->record, &server->card);
    }
    server->record_known = status == POET_OK;
    server->record_status = status;
    server->residents_count = status == POET_OK;
    server->residents_stale = false;
    server->preparing = false;
    *step_number = server->record.step;
    *bytes = poet_record_bytes(&server->record);
    return status;
}

int poet_verb_restore(poet_server *server, const char *arguments, poet_text *answer)
{
    if (!poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "restore takes no arguments");
    }
    uint32_t step_number;
    uint32_t bytes;
    int status = poet_session_pager(server);
    if (status != POET_OK) {
        return poet_reply_finish(answer, status);
    }
    poet_runner_forget_sums(&server->runner);
    status = poet_session_keeps_tensors(server) ? restore_record(server, &step_number, &bytes)
                                                : poet_checkpoint_restore(&server->card, server->built->model, 0,
                                                                          server->ram, NULL, &step_number, &bytes);
    if (status == POET_E_TAKEN) {
        status = POET_E_ABSENT; /* another network's commits are none of this one */
    }
    poet_session_note(server, status);
    if (status == POET_E_ABSENT) {
        return poet_reply_fail(answer, status, "no commit of this model on the card");
    }
    if (status != POET_OK) {
        return poet_reply_finish(answer, status);
    }
    poet_reply_number(answer, "step", step_number);
    poet_reply_number(answer, "bytes", bytes);
    if (poet_session_keeps_tensors(server)) {
        poet_reply_number(answer, "batches", server->record.batches);
    }
    if (server->card.forgets) {
        poet_reply_number(answer, "lasting", server->lasting);
    }
    return POET_OK;
}
