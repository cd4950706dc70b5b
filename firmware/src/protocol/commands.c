/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the verb of a request; the verbs of the board itself. */
#include <stddef.h>

#include "poet/board.h"
#include "poet/server.h"
#include "reply.h"
#include "session.h"
#include "verbs.h"

#ifndef POET_FIRMWARE_ID
#define POET_FIRMWARE_ID "unknown"
#endif

/* Why the board started, as far as it can tell. */
static void put_start(poet_text *answer)
{
    poet_start start;
    poet_board_start(&start);
    if (start.cause != NULL) {
        poet_reply_string(answer, "start", start.cause);
        poet_reply_hex(answer, "reset", start.flags, 8);
    }
    if (start.failures != 0u) {
        poet_reply_number(answer, "failures", start.failures);
    }
    if (start.pc != 0u) {
        poet_reply_hex(answer, "pc", start.pc, 8);
        poet_reply_hex(answer, "lr", start.lr, 8);
    }
    if (start.status != 0u) {
        poet_reply_hex(answer, "status", start.status, 8);
    }
    if (start.waited_for != 0u) {
        poet_reply_number(answer, "waited_for", start.waited_for);
    }
    if (start.regulator != NULL) {
        poet_reply_string(answer, "regulator", start.regulator);
    }
}

/* --- verbs of the board --- */

void poet_hello(const poet_server *server, const char *board, const char *firmware, poet_text *answer)
{
    const poet_built *built = server->built;
    poet_reply_number(answer, "protocol", 2);
    poet_reply_string(answer, "board", board);
    poet_reply_string(answer, "firmware", firmware);
    poet_reply_hex(answer, "boot", poet_board_boot_id(), 8);
    poet_reply_number(answer, "ticks_hz", poet_board_ticks_hz);
    poet_reply_number(answer, "ram_bytes", server->ram_bytes);
    poet_reply_hex(answer, "model", built->model != NULL ? built->model->graph_hash : 0, 16);
    poet_reply_hex(answer, "schedule", built->schedule != NULL ? built->schedule->hash : 0, 16);
    if (built->inference != NULL) {
        poet_reply_hex(answer, "inference", built->inference->schedule->hash, 16);
    }
    if (server->extraction_status == POET_OK) {
        poet_reply_hex(answer, "features", built->extraction->plan.schedule->hash, 16);
        poet_reply_number(answer, "room", server->store.room);
    }
    put_start(answer);
}

int poet_verb_hello(poet_server *server, const char *arguments, poet_text *answer)
{
    if (!poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "hello takes no arguments");
    }
    poet_hello(server, poet_board_name, POET_FIRMWARE_ID, answer);
    return POET_OK;
}

int poet_verb_stack(poet_server *server, const char *arguments, poet_text *answer)
{
    (void)server;
    if (!poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "stack takes no arguments");
    }
    poet_reply_number(answer, "bytes", poet_board_stack_peak());
    return POET_OK;
}

int poet_verb_format(poet_server *server, const char *arguments, poet_text *answer)
{
    if (!poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "format takes no arguments");
    }
    int status = poet_session_card(server);
    if (status == POET_OK) {
        status = poet_pager_format(server->card.lasting != NULL ? server->card.lasting : &server->card);
        server->record_known = false;
        server->lasting = 0;
    }
    poet_session_note(server, status);
    if (status != POET_OK) {
        return poet_reply_finish(answer, status);
    }
    poet_reply_number(answer, "blocks", server->card.block_count);
    return POET_OK;
}

/* The board leaves when the answer has been sent. */
int poet_verb_bootloader(poet_server *server, const char *arguments, poet_text *answer)
{
    if (!poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "bootloader takes no arguments");
    }
    if (!poet_board_has_bootloader) {
        return poet_reply_fail(answer, POET_E_UNSUPPORTED, "this board has no bootloader");
    }
    server->leaving = true;
    return POET_OK;
}

/* --- dispatch --- */

/* Why the built plan cannot be run, where that is known since the start. */
static const char *explain_plan(int status)
{
    switch (status) {
    case POET_E_MEMORY:
        return "the built plan needs more RAM than this board has for tensors";
    case POET_E_ORDER:
        return "the built schedule pages after the first change of a weight: plan again";
    case POET_E_HASH:
        return "the built schedule was made for another graph than the built model";
    case POET_E_CORRUPT:
        return "the built plan is damaged or does not fit this firmware's operators: plan again";
    case POET_E_UNSUPPORTED:
        return "the built model uses an operator that is not in this build";
    default:
        return "no model in this build";
    }
}
static const struct {
    const char *name;
    poet_verb *run;
    bool needs_plan;
} verbs[] = {
    {"hello", poet_verb_hello, false},
    {"bench", poet_verb_bench, false},
    {"page", poet_verb_page, false},
    {"idle", poet_verb_idle, false},
    {"put", poet_verb_put, true},
    {"get", poet_verb_get, true},
    {"step", poet_verb_step, true},
    {"infer", poet_verb_infer, true},
    {"times", poet_verb_times, true},
    {"commit", poet_verb_commit, true},
    {"batches", poet_verb_batches, true},
    {"restore", poet_verb_restore, true},
    {"stack", poet_verb_stack, false},
    {"format", poet_verb_format, false},
    {"bootloader", poet_verb_bootloader, false},
    {"scaled", poet_verb_scaled, true},
    {"set", poet_verb_set, true},
    {"block", poet_verb_block, true},
    {"samples", poet_verb_samples, true},
    {"extract", poet_verb_extract, true},
    {"keep", poet_verb_keep, true},
    {"kept", poet_verb_kept, true},
};

int poet_command_run(poet_server *server, const char *body, poet_text *answer)
{
    const int answered = poet_sketch_command != NULL ? poet_sketch_command(server, body, answer) : POET_MORE;
    if (answered != POET_MORE) {
        return answered;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (!poet_read_word(&body, verbs[i].name)) {
            continue;
        }
        if (verbs[i].needs_plan && server->runner_status != POET_OK) {
            return poet_reply_fail(answer, server->runner_status, explain_plan(server->runner_status));
        }
        return verbs[i].run(server, body, answer);
    }
    return poet_reply_fail(answer, POET_E_UNSUPPORTED, "unknown verb");
}
