/* SPDX-License-Identifier: Apache-2.0 */
/* The verb of inference: `infer`, of a sample that was put, or from features that are kept. */
#include <stddef.h>

#include "poet/board.h"
#include "reply.h"
#include "session.h"
#include "verbs.h"

#define MOST_SCORE_BYTES 128u /* beside what else a line holds */

/* The bytes of the inference's output; NULL if it has none. */
static const uint8_t *output(const poet_server *server, uint32_t *size)
{
    const poet_model *model = server->built->inference->model;
    for (uint32_t i = server->built->model->resident_count; i < model->resident_count; i++) {
        if (model->residents[i].kind == POET_RESIDENT_OUTPUT) {
            *size = model->residents[i].bytes;
            return server->ram + model->residents[i].offset;
        }
    }
    return NULL;
}

static void put_scores(poet_server *server, poet_text *answer)
{
    uint32_t size = 0;
    const uint8_t *scores = output(server, &size);
    poet_reply_key(answer, "scores");
    for (uint32_t i = 0; i < size && i < MOST_SCORE_BYTES; i++) {
        poet_text_hex(answer, scores[i], 2);
    }
}

/* `ticks` of its window have passed. */
static int run(poet_server *server, const poet_plan *plan, uint32_t ticks, poet_text *answer)
{
    poet_runner runner;
    poet_run run = {.hooks = &server->hooks};
    poet_session_forget_traces(server);
    poet_session_forget_sums(server, plan->model);
    poet_runner_open(&runner, plan->model, plan->schedule, &server->built->tables, server->ram, server->ram_bytes);
    const int status = poet_session_run_beside(server, &runner, &run);
    if (status != POET_OK) {
        poet_board_window(false);
        return poet_reply_finish(answer, status);
    }
    run.ticks += ticks;
    poet_reply_run(answer, &run);
    put_scores(server, answer);
    return POET_OK;
}

static int run_on_features(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t number;
    if (!poet_argument_unsigned(&arguments, &number) || !poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: infer [number]");
    }
    const poet_plan *plan = server->extraction_status == POET_OK ? server->built->extraction->infer : NULL;
    if (plan == NULL) {
        return poet_reply_fail(answer, POET_E_UNSUPPORTED, "no inference from features in this build");
    }
    int status = poet_feature_card(server, number);
    if (status != POET_OK) {
        return poet_session_fail(answer, status);
    }
    const bool on_card = number >= server->store.room;
    const uint32_t before = on_card ? poet_feature_window() : 0u; /* the run's goes on with it */
    status = poet_feature_store_give(&server->store, plan->model, number);
    if (status != POET_OK) {
        poet_board_window(false);
        return poet_feature_refusal(server, answer, status);
    }
    return run(server, plan, on_card ? poet_board_ticks() - before : 0u, answer);
}

int poet_verb_infer(poet_server *server, const char *arguments, poet_text *answer)
{
    if (server->inference_status == POET_E_ABSENT) {
        return poet_reply_fail(answer, POET_E_UNSUPPORTED, "no inference in this build");
    }
    if (server->inference_status != POET_OK) {
        return poet_reply_finish(answer, server->inference_status);
    }
    return poet_arguments_end(arguments) ? run(server, server->built->inference, 0, answer)
                                         : run_on_features(server, arguments, answer);
}
