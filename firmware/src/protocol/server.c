/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/server.h"

#include <stddef.h>

#include "poet/board.h"

/* RAM up to the end of the plan that needs most. */
static uint32_t taken_bytes(const poet_server *server)
{
    const poet_built *built = server->built;
    const poet_plan *extraction = &built->extraction->plan;
    const poet_plan *infer = built->extraction->infer;
    const poet_plan plans[] = {{built->model, built->schedule},
                               *extraction,
                               *(infer != NULL ? infer : extraction),
                               *(server->inference_status == POET_OK ? built->inference : extraction)};
    uint32_t most = 0;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const uint32_t bytes = (plans[i].schedule->ram_bytes + 3u) / 4u * 4u;
        most = bytes > most ? bytes : most;
    }
    return most;
}

void poet_server_take(poet_server *server, const poet_built *built, uint32_t held_bytes)
{
    server->built = built;
    server->ram = poet_board_ram(&server->ram_bytes);
    server->ram_bytes -= held_bytes;
    server->card_up = false; /* what is known of it, and of the residents, was another plan's */
    server->record_known = false;
    server->preparing = false;
    server->residents_count = false;
    server->residents_stale = false;
    server->runner_status = POET_E_ABSENT;
    server->inference_status = POET_E_ABSENT;
    server->extraction_status = POET_E_ABSENT;
    if (built->model != NULL) {
        server->runner_status = poet_runner_init(&server->runner, built->model, built->schedule, &built->tables,
                                                 server->ram, server->ram_bytes);
    }
    if (server->runner_status == POET_OK && built->inference != NULL) {
        server->inference_status = poet_runner_check_inference(built->inference, built->model, server->ram_bytes);
    }
    if (server->runner_status == POET_OK && built->extraction != NULL) {
        server->extraction_status = poet_features_check(built->extraction, built->model, server->ram_bytes);
    }
    if (server->extraction_status == POET_OK) {
        const poet_plan head = {built->model, built->schedule};
        const poet_plan *plan = &built->extraction->plan;
        poet_runner_open(&server->extractor, plan->model, plan->schedule, &built->tables, server->ram,
                         server->ram_bytes);
        poet_feature_store_init(&server->store, built->extraction, &head, server->ram, taken_bytes(server),
                                server->ram_bytes, poet_board_boot_id());
    }
    if (server->runner_status == POET_OK) { /* a damaged table is not followed */
        poet_record_init(&server->record, built->model, server->ram, built->tables.checks, built->tables.homes);
    }
}

void poet_server_init(poet_server *server, const poet_built *built)
{
    *server = (poet_server){
        .hooks = {.ticks = poet_board_ticks, .ticks_hz = poet_board_ticks_hz, .window = poet_board_window},
    };
    poet_server_take(server, built, 0);
}

static void send(const char *text, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        poet_board_putchar(text[i]);
    }
    poet_board_flush();
}

static void acknowledge(uint16_t sequence)
{
    char buffer[16];
    poet_text text = {buffer, sizeof buffer, 0};
    poet_frame_begin(&text, sequence);
    poet_text_string(&text, "ack");
    poet_frame_close(&text);
    send(buffer, text.length);
}

static void compose_error(poet_text *answer, int status, const char *words)
{
    poet_text_string(answer, "err -");
    poet_text_decimal(answer, (uint32_t)-status);
    poet_text_char(answer, ' ');
    poet_text_string(answer, words);
}

static void answer_request(poet_server *server, const poet_request *request)
{
    /* The text leaves room for the frame's end: "*CCCC\n" and the final zero byte. */
    poet_text text = {server->answer, sizeof server->answer, 0};
    poet_frame_begin(&text, request->sequence);
    if (!server->greeted) {
        compose_error(&text, POET_E_ORDER, "reset");
    } else {
        char words[POET_LINE_BYTES - 40u];
        poet_text result = {words, sizeof words, 0};
        words[0] = '\0';
        const int status = poet_command_run(server, request->body, &result);
        if (status == POET_OK) {
            poet_text_string(&text, "ok");
            poet_text_string(&text, words);
        } else {
            compose_error(&text, status, words);
        }
    }
    poet_frame_close(&text);
    server->answer_length = text.length;
    server->sequence = request->sequence;
}

void poet_server_receive(poet_server *server, char byte)
{
    poet_request request;
    if (!poet_line_push(&server->line, byte) ||
        poet_frame_open(server->line.text, server->line.length, &request) != POET_OK) {
        return;
    }
    acknowledge(request.sequence);
    /* `hello` is harmless and is never answered from memory: a new host may count from any number. */
    const char *cursor = request.body;
    const bool hello = poet_read_word(&cursor, "hello");
    server->greeted = server->greeted || hello;
    if (hello || server->answer_length == 0 || request.sequence != server->sequence) {
        answer_request(server, &request);
    }
    send(server->answer, server->answer_length);
    if (server->leaving) {
        server->leaving = false;
        poet_board_enter_bootloader();
    }
}
