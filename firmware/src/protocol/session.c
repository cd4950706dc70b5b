/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <stddef.h>

#include "poet/board.h"
#include "poet/checkpoint.h"
#include "poet/saved.h"
#include "reply.h"

void poet_session_note(poet_server *server, int status)
{
    if (status == POET_E_IO || status == POET_E_ABSENT || status == POET_E_CORRUPT || status == POET_E_PROTECTED ||
        status == POET_E_TAKEN) {
        server->card_up = false;
        server->record_known = false;
        server->preparing = false;
    }
}

/* The board's card; or with POET_KEEP_FLASH the end of the chip's own flash, labelled for poet at its first use. Beside
 * slow memory, 1 in POET_KEEP_FLASH, flash has the commits alone. */
#ifdef POET_KEEP_FLASH
static int open_flash(const poet_server *server, poet_block_device *flash)
{
    const poet_model *model = server->built->model;
    const bool keeps = POET_KEEP_FLASH && poet_session_keeps_tensors(server);
    const uint32_t blocks = model == NULL ? 0u : poet_saved_blocks(model, keeps ? &server->record : NULL);
    const uint32_t commit = (blocks + 2u + 7u) / 8u * 8u; /* with two headers, in units of 4 KB at most */
    poet_pager pager;
    int status = poet_board_flash(4u * commit + 8u, flash);
    if (status == POET_E_FULL) {
        status = poet_board_flash(2u * commit + 8u, flash); /* wears twice as fast */
    }
    if (status == POET_OK && poet_pager_open(&pager, flash) == POET_E_ABSENT) {
        status = poet_pager_format(flash);
    }
    return status;
}

static int open_storage(poet_server *server)
{
    static poet_block_device flash;
    int status = POET_KEEP_FLASH ? poet_board_storage(&server->card) : open_flash(server, &server->card);
    if (POET_KEEP_FLASH && status == POET_OK) {
        status = open_flash(server, &flash);
        server->card.lasting = &flash;
    }
    return status;
}
#else
static int open_storage(poet_server *server)
{
    return poet_board_storage(&server->card);
}
#endif

int poet_session_card(poet_server *server)
{
    const int status = server->card_up ? POET_OK : open_storage(server);
    server->card_up = status == POET_OK;
    return status;
}

int poet_session_lasting(const poet_server *server)
{
    poet_pager pager;
    const poet_block_device *lasting = server->card.lasting;
    const int status = lasting == NULL ? POET_E_ABSENT : poet_pager_open(&pager, lasting);
    return status != POET_OK ? status : poet_record_check_others(lasting, 0);
}

bool poet_session_keeps_tensors(const poet_server *server)
{
    return server->runner_status == POET_OK && server->built->model->kept_count > 0;
}

/* Reads once, of a card that came up, which of the model's tensors on it count. */
static int know_record(poet_server *server)
{
    if (server->record_known) {
        return POET_OK;
    }
    if (server->record.step != server->record.committed) {
        poet_session_lose_residents(server); /* steps since the last commit, of which it knows nothing */
    }
    server->record_status = poet_record_load(&server->record, &server->card);
    server->record_known = true;
    if (server->record_status == POET_E_ABSENT) {
        const int status = poet_record_check_others(&server->card, server->built->model->graph_hash);
        return status == POET_OK && poet_checkpoint_is_there(&server->card) ? POET_E_TAKEN : status;
    }
    return server->record_status == POET_E_IO || server->record_status == POET_E_FULL ? server->record_status : POET_OK;
}

int poet_session_pager(poet_server *server)
{
    int status = poet_session_card(server);
    if (status == POET_OK) {
        status = poet_pager_open(&server->pager, &server->card);
    }
    if (status == POET_OK) {
        status = poet_session_keeps_tensors(server) ? know_record(server) : poet_record_check_others(&server->card, 0);
    }
    if (status == POET_OK && poet_session_keeps_tensors(server)) {
        server->pager.page_area = poet_record_page_block(&server->record);
    }
    poet_session_note(server, status);
    return status;
}

int poet_session_behind_pages(poet_server *server, uint32_t *block)
{
    const int status = poet_session_pager(server);
    const poet_built *built = server->built;
    const bool on_features = server->extraction_status == POET_OK;
    const poet_plan *beside[] = {server->inference_status == POET_OK ? built->inference : NULL,
                                 on_features ? &built->extraction->plan : NULL,
                                 on_features ? built->extraction->infer : NULL};
    uint32_t taken = status == POET_OK ? poet_runner_card_blocks(built->schedule) : 0u;
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        const uint32_t more = beside[i] != NULL ? poet_runner_card_blocks(beside[i]->schedule) : 0u;
        taken = more > taken ? more : taken;
    }
    *block = server->pager.page_area + taken;
    return status;
}

int poet_session_record(poet_server *server, bool preparing_will_do)
{
    const int status = poet_session_pager(server);
    if (status != POET_OK || (preparing_will_do && server->preparing)) {
        return status;
    }
    return server->record_status;
}

int poet_session_fail(poet_text *answer, int status)
{
    return poet_reply_fail(answer, status,
                           status == POET_E_ABSENT ? "no card, no label on it, or no record of this model"
                                                   : poet_explain(status));
}

void poet_session_lose_residents(poet_server *server)
{
    poet_runner_forget_trace(&server->runner);
    poet_runner_forget_sums(&server->runner);
    server->residents_stale = server->residents_stale || server->residents_count;
    server->residents_count = false;
}

void poet_session_forget_sums(poet_server *server, const poet_model *inference)
{
    if (poet_is_in_gradients(inference, server->built->model)) {
        poet_runner_forget_sums(&server->runner);
    }
}

int poet_session_residents(poet_server *server)
{
    if (server->residents_count || poet_saved_bytes(server->built->model) == 0) {
        return POET_OK;
    }
    const int status = server->residents_stale ? poet_record_read_residents(&server->record) : POET_E_ORDER;
    server->residents_count = status == POET_OK;
    server->residents_stale = server->residents_stale && status != POET_OK;
    return status;
}

void poet_session_forget_traces(poet_server *server)
{
    poet_runner_forget_trace(&server->runner);
    poet_runner_forget_trace(&server->extractor);
}

int poet_session_run_beside(poet_server *server, poet_runner *runner, poet_run *run)
{
    int status = POET_OK;
    if (runner->model->kept_count > 0) {
        status = poet_session_record(server, false);
        run->record = &server->record;
        if (status == POET_OK && poet_record_ends_steps(server->built->model)) {
            status = poet_session_residents(server); /* those of the step whose tensors the card has */
        }
    }
    if (status == POET_OK && poet_runner_needs_card(runner, run->trace)) {
        status = poet_session_pager(server);
        run->pager = &server->pager;
    }
    if (status == POET_OK) {
        status = poet_runner_step(runner, run);
        poet_session_note(server, status);
    }
    return status;
}
