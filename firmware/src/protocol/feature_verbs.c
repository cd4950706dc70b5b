/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs of features: `extract` makes those of a batch, `keep` and `kept` move them to RAM that no plan takes, or to the
 * card, and back. */
#include <stddef.h>

#include "poet/board.h"
#include "reply.h"
#include "session.h"
#include "verbs.h"

static int refuse(const poet_server *server, poet_text *answer)
{
    return server->extraction_status == POET_E_ABSENT
               ? poet_reply_fail(answer, POET_E_UNSUPPORTED, "no features in this build")
               : poet_reply_finish(answer, server->extraction_status);
}

int poet_verb_extract(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t first;
    uint32_t trace;
    if (!poet_argument_unsigned(&arguments, &first) || !poet_argument_unsigned(&arguments, &trace) || trace > 1u ||
        !poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: extract FIRST 0|1");
    }
    if (server->extraction_status != POET_OK) {
        return refuse(server, answer);
    }
    const poet_extraction *extraction = server->built->extraction;
    if (first >= extraction->samples || first % extraction->at_once != 0) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "FIRST is below the batch, and as many at once divide it");
    }
    poet_run run = {.hooks = &server->hooks, .trace = trace == 1u};
    poet_session_forget_traces(server);
    poet_features_exchange(extraction, server->built->model, server->ram, first);
    const int status = poet_session_run_beside(server, &server->extractor, &run);
    poet_features_exchange(extraction, server->built->model, server->ram, first);
    if (status != POET_OK) {
        return poet_reply_finish(answer, status);
    }
    poet_reply_run(answer, &run);
    return POET_OK;
}

int poet_feature_refusal(poet_server *server, poet_text *answer, int status)
{
    if (status != POET_E_ABSENT && status != POET_E_ARGUMENT) {
        poet_session_note(server, status);
        return poet_reply_finish(answer, status);
    }
    return poet_reply_fail(answer, status,
                           status == POET_E_ABSENT ? "a sample of this number is not kept"
                                                   : "not in the batch, or no room for a sample of this number");
}

uint32_t poet_feature_window(void)
{
    poet_board_window(true);
    return poet_board_ticks();
}

int poet_feature_card(poet_server *server, uint32_t number)
{
    if (number < server->store.room) {
        return POET_OK;
    }
    const int status = poet_session_behind_pages(server, &server->store.card_from);
    server->store.card = status == POET_OK ? &server->card : NULL;
    return status;
}

static int move_samples(poet_server *server, const char *arguments, poet_text *answer, bool keeping)
{
    uint32_t place;
    uint32_t number;
    uint32_t count = 0;
    int status = POET_OK;
    poet_run run = {.ticks = 0};
    bool on_card = false;
    if (!poet_argument_unsigned(&arguments, &place)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: keep|kept PLACE number...");
    }
    if (server->extraction_status != POET_OK) {
        return refuse(server, answer);
    }
    for (; status == POET_OK && !poet_arguments_end(arguments); count++) {
        if (!poet_argument_unsigned(&arguments, &number) || count >= server->store.samples) {
            status = POET_E_ARGUMENT;
            break;
        }
        if (!on_card && number >= server->store.room) {
            status = poet_feature_card(server, number);
            if (status != POET_OK) {
                return poet_session_fail(answer, status);
            }
            on_card = true;
            run.before = poet_feature_window();
        }
        status = keeping ? poet_feature_store_keep(&server->store, place + count, number)
                         : poet_feature_store_fill(&server->store, place + count, number);
    }
    if (on_card) {
        run.ticks = poet_board_ticks() - run.before;
        poet_board_window(false);
    }
    if (status != POET_OK) {
        return poet_feature_refusal(server, answer, status);
    }
    poet_reply_number(answer, "samples", count);
    poet_reply_run(answer, &run);
    return POET_OK;
}

int poet_verb_keep(poet_server *server, const char *arguments, poet_text *answer)
{
    return move_samples(server, arguments, answer, true);
}

int poet_verb_kept(poet_server *server, const char *arguments, poet_text *answer)
{
    return move_samples(server, arguments, answer, false);
}
