/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs of benchmarks, each of one window: `bench`, `page`, `idle`. */
#include <stddef.h>

#include "poet/bench.h"
#include "poet/board.h"
#include "reply.h"
#include "session.h"
#include "verbs.h"

int poet_verb_bench(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t code;
    uint32_t repeats;
    if (!poet_argument_unsigned(&arguments, &code) || !poet_argument_unsigned(&arguments, &repeats) || repeats == 0) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: bench CODE repeats p0 p1 ...");
    }
    const poet_operator_set *operators = server->built->operators;
    const poet_operator *operator = code <= UINT8_MAX ? poet_operator_find(operators, (uint8_t)code) : NULL;
    if (operator == NULL) {
        return poet_reply_fail(answer, POET_E_UNSUPPORTED, "no such operator in this build");
    }

    int32_t params[POET_MAX_PARAMS];
    int32_t count = operator->param_count;
    for (int32_t i = 0; i < count; i++) {
        if (!poet_argument_signed(&arguments, &params[i])) {
            return poet_reply_fail(answer, POET_E_ARGUMENT, "too few parameters for the operator");
        }
        count = i + 1 == operator->param_count ? poet_operator_params(operator, params) : count;
        if (count > POET_MAX_PARAMS) {
            return poet_reply_fail(answer, POET_E_ARGUMENT, "too many parameters for the operator");
        }
    }
    if (!poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "too many parameters for the operator");
    }

    poet_operator_bench result;
    poet_pager *pager = NULL;
    poet_session_lose_residents(server);
    int status = POET_OK;
    if (poet_bench_needs_card(operator, params)) {
        status = poet_session_pager(server);
        pager = &server->pager;
    }
    if (status == POET_OK) {
        status = poet_bench_operator(operator, params, repeats, server->ram, server->ram_bytes, pager, &result);
    }
    if (pager != NULL) {
        poet_session_note(server, status);
    }
    if (status != POET_OK) {
        return poet_reply_finish(answer, status);
    }
    poet_reply_number(answer, "ticks", result.ticks);
    poet_reply_number(answer, "repeats", repeats);
    poet_reply_number(answer, "bytes", result.output_bytes);
    poet_reply_number(answer, "workspace", result.workspace_bytes);
    poet_reply_hex(answer, "checksum", result.checksum, 8);
    poet_reply_sensors(answer);
    return POET_OK;
}

int poet_verb_page(poet_server *server, const char *arguments, poet_text *answer)
{
    static const char usage[] = "expected: page in|out bytes repeats sequential|scattered";
    poet_page_bench work = {0};
    if (!poet_read_char(&arguments, ' ')) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, usage);
    }
    work.in = poet_read_word(&arguments, "in");
    if ((!work.in && !poet_read_word(&arguments, "out")) || !poet_argument_unsigned(&arguments, &work.bytes) ||
        !poet_argument_unsigned(&arguments, &work.repeats) || !poet_read_char(&arguments, ' ')) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, usage);
    }
    work.scattered = poet_read_word(&arguments, "scattered");
    if ((!work.scattered && !poet_read_word(&arguments, "sequential")) || !poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, usage);
    }

    poet_session_lose_residents(server);
    int status = poet_session_pager(server);
    if (status == POET_OK) {
        status = poet_bench_page(&server->pager, server->ram, server->ram_bytes, &work);
    }
    poet_session_note(server, status);
    if (status != POET_OK) {
        return poet_reply_finish(answer, status);
    }
    poet_reply_number(answer, "ticks", work.ticks);
    poet_reply_number(answer, "repeats", work.repeats);
    poet_reply_number(answer, "bytes", work.bytes);
    poet_reply_sensors(answer);
    return POET_OK;
}

int poet_verb_idle(poet_server *server, const char *arguments, poet_text *answer)
{
    (void)server;
    uint32_t ticks;
    if (!poet_argument_unsigned(&arguments, &ticks) || !poet_arguments_end(arguments)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, "expected: idle ticks");
    }
    poet_board_window(true);
    const uint32_t before = poet_board_ticks();
    poet_board_idle(ticks);
    const uint32_t after = poet_board_ticks();
    poet_board_window(false);
    poet_reply_number(answer, "ticks", after - before);
    return POET_OK;
}
