/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "poet/bench.h"
#include "poet/board.h"
#include "poet/checkpoint.h"
#include "poet/saved.h"
#include "poet/server.h"

#ifndef POET_FIRMWARE_ID
#define POET_FIRMWARE_ID "unknown"
#endif

#define MOST_GET_BYTES 224u
#define MOST_STEPS 24u

/* --- answers --- */

static void put_key(poet_text *answer, const char *key)
{
    poet_text_char(answer, ' ');
    poet_text_string(answer, key);
    poet_text_char(answer, '=');
}

static void put_number(poet_text *answer, const char *key, uint64_t number)
{
    put_key(answer, key);
    poet_text_decimal(answer, number);
}

static void put_hex(poet_text *answer, const char *key, uint64_t number, uint32_t digits)
{
    put_key(answer, key);
    poet_text_hex(answer, number, digits);
}

static void put_string(poet_text *answer, const char *key, const char *string)
{
    put_key(answer, key);
    poet_text_string(answer, string);
}

static void put_signed(poet_text *answer, const char *key, int32_t number)
{
    put_key(answer, key);
    if (number < 0) {
        poet_text_char(answer, '-');
    }
    poet_text_decimal(answer, number < 0 ? 0u - (uint32_t)number : (uint32_t)number);
}

/* What the board's own sensors show; nothing where it has none. */
static void put_sensors(poet_text *answer)
{
    poet_sensors sensors = {0};
    poet_board_sensors(&sensors);
    if (sensors.has_clock) {
        put_number(answer, "cpu_khz", sensors.cpu_khz);
    }
    if (sensors.has_temperature) {
        put_signed(answer, "temperature_mc", sensors.temperature_mc);
    }
}

static const char *explain(int status)
{
    switch (status) {
    case POET_E_ARGUMENT:
        return "arguments make no sense";
    case POET_E_MEMORY:
        return "does not fit the RAM, or overlaps a live block";
    case POET_E_ORDER:
        return "schedule needs a value that is not there";
    case POET_E_IO:
        return "storage device does not answer or reports an error";
    case POET_E_FULL:
        return "storage device has no room";
    case POET_E_CORRUPT:
        return "check failed";
    case POET_E_UNSUPPORTED:
        return "not in this build";
    case POET_E_PROTECTED:
        return "card is write-protected or locked: unlock it in a computer, or use another one";
    case POET_E_TAKEN:
        return "card holds the tensors of another model";
    default:
        return "no card, or no label on it";
    }
}

/* Why the built plan cannot be run, where that is known since the start. */
static const char *explain_plan(int status)
{
    switch (status) {
    case POET_E_MEMORY:
        return "the built plan needs more RAM than this board has for tensors";
    case POET_E_ORDER:
        return "the built schedule pages behind the first change of a weight: plan again";
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

/* Ends a command: replaces whatever was written by what went wrong. */
static int fail(poet_text *answer, int status, const char *words)
{
    answer->length = 0;
    poet_text_string(answer, words);
    return status;
}

static int finish(poet_text *answer, int status)
{
    return status == POET_OK ? status : fail(answer, status, explain(status));
}

/* --- arguments --- */

static bool read_unsigned(const char **cursor, uint32_t *number)
{
    return poet_read_char(cursor, ' ') && poet_read_unsigned(cursor, number);
}

static bool read_signed(const char **cursor, int32_t *number)
{
    int64_t wide;
    if (!poet_read_char(cursor, ' ') || !poet_read_decimal(cursor, &wide) || wide < INT32_MIN || wide > INT32_MAX) {
        return false;
    }
    *number = (int32_t)wide;
    return true;
}

static bool at_end(const char *cursor)
{
    return *cursor == '\0';
}

/* Why the board started, as far as it can tell. */
static void put_start(poet_text *answer)
{
    poet_start start;
    poet_board_start(&start);
    if (start.cause != NULL) {
        put_string(answer, "start", start.cause);
        put_hex(answer, "reset", start.flags, 8);
    }
    if (start.failures != 0u) {
        put_number(answer, "failures", start.failures);
    }
    if (start.pc != 0u) {
        put_hex(answer, "pc", start.pc, 8);
        put_hex(answer, "lr", start.lr, 8);
    }
    if (start.status != 0u) {
        put_hex(answer, "status", start.status, 8);
    }
    if (start.waited_for != 0u) {
        put_number(answer, "waited_for", start.waited_for);
    }
    if (start.regulator != NULL) {
        put_string(answer, "regulator", start.regulator);
    }
}

/* --- verbs --- */

static int hello(poet_server *server, const char *arguments, poet_text *answer)
{
    if (!at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, "hello takes no arguments");
    }
    const poet_built *built = server->built;
    put_number(answer, "protocol", 1);
    put_string(answer, "board", poet_board_name);
    put_string(answer, "firmware", POET_FIRMWARE_ID);
    put_hex(answer, "boot", poet_board_boot_id(), 8);
    put_number(answer, "ticks_hz", poet_board_ticks_hz);
    put_number(answer, "ram_bytes", server->ram_bytes);
    put_hex(answer, "model", built->model != NULL ? built->model->graph_hash : 0, 16);
    put_hex(answer, "schedule", built->schedule != NULL ? built->schedule->hash : 0, 16);
    put_start(answer);
    return POET_OK;
}

/* After an error the card is brought up afresh, so that one which was pulled out, or exchanged, can be put back. */
static void note_card(poet_server *server, int status)
{
    if (status == POET_E_IO || status == POET_E_ABSENT || status == POET_E_CORRUPT || status == POET_E_PROTECTED ||
        status == POET_E_TAKEN) {
        server->card_up = false;
        server->record_known = false;
        server->preparing = false;
    }
}

static int bring_card_up(poet_server *server)
{
    const int status = server->card_up ? POET_OK : poet_board_storage(&server->card);
    server->card_up = status == POET_OK;
    return status;
}

static bool keeps_tensors(const poet_server *server)
{
    return server->runner_status == POET_OK && server->built->model->kept_count > 0;
}

/* Reads once, of a card that came up, which of the model's tensors on it count. */
static int know_record(poet_server *server)
{
    if (server->record_known) {
        return POET_OK;
    }
    server->record_status = poet_record_load(&server->record, &server->card);
    server->record_known = true;
    if (server->record_status == POET_E_ABSENT) {
        return poet_record_check_others(&server->card, server->built->model->graph_hash);
    }
    return server->record_status == POET_E_IO ? POET_E_IO : POET_OK;
}

/* Opens the card, unless it is another model's; pages go behind the tensors that a model keeps there. */
static int open_pager(poet_server *server)
{
    int status = bring_card_up(server);
    if (status == POET_OK) {
        status = poet_pager_open(&server->pager, &server->card);
    }
    if (status == POET_OK) {
        status = keeps_tensors(server) ? know_record(server) : poet_record_check_others(&server->card, 0);
    }
    if (status == POET_OK && keeps_tensors(server)) {
        server->pager.page_area = poet_record_page_block(&server->record);
    }
    note_card(server, status);
    return status;
}

/* Opens a card on which a record says what counts, or on which the tensors for a first one are being put. */
static int open_record(poet_server *server, bool preparing_will_do)
{
    const int status = open_pager(server);
    if (status != POET_OK || (preparing_will_do && server->preparing)) {
        return status;
    }
    return server->record_status;
}

static int fail_record(poet_text *answer, int status)
{
    return fail(answer, status,
                status == POET_E_ABSENT ? "no card, no label on it, or no record of this model" : explain(status));
}

/* The RAM was used otherwise, or a step failed that may have changed residents. */
static void lose_residents(poet_server *server)
{
    poet_runner_forget_trace(&server->runner);
    server->residents_stale = server->residents_stale || server->residents_count;
    server->residents_count = false;
}

/* A step begins with the residents that were committed with the last one. */
static int read_residents_back(poet_server *server)
{
    if (server->residents_count || poet_saved_blocks(server->built->model) == 0) {
        return POET_OK;
    }
    const int status = server->residents_stale ? poet_record_read_residents(&server->record) : POET_E_ORDER;
    server->residents_count = status == POET_OK;
    server->residents_stale = server->residents_stale && status != POET_OK;
    return status;
}

static int bench(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t code;
    uint32_t repeats;
    if (!read_unsigned(&arguments, &code) || !read_unsigned(&arguments, &repeats) || repeats == 0) {
        return fail(answer, POET_E_ARGUMENT, "expected: bench CODE repeats p0 p1 ...");
    }
    const poet_operator *operator = code <= UINT8_MAX ? poet_operator_find((uint8_t)code) : NULL;
    if (operator == NULL) {
        return fail(answer, POET_E_UNSUPPORTED, "no such operator in this build");
    }

    int32_t params[POET_MAX_PARAMS];
    for (uint32_t i = 0; i < operator->param_count; i++) {
        if (!read_signed(&arguments, &params[i])) {
            return fail(answer, POET_E_ARGUMENT, "too few parameters for the operator");
        }
    }
    if (!at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, "too many parameters for the operator");
    }

    poet_operator_bench result;
    poet_pager *pager = NULL;
    lose_residents(server);
    int status = POET_OK;
    if (poet_bench_needs_card(operator, params)) {
        status = open_pager(server);
        pager = &server->pager;
    }
    if (status == POET_OK) {
        status = poet_bench_operator(operator, params, repeats, server->ram, server->ram_bytes, pager, &result);
    }
    if (pager != NULL) {
        note_card(server, status);
    }
    if (status != POET_OK) {
        return finish(answer, status);
    }
    put_number(answer, "ticks", result.ticks);
    put_number(answer, "repeats", repeats);
    put_number(answer, "bytes", result.output_bytes);
    put_number(answer, "workspace", result.workspace_bytes);
    put_hex(answer, "checksum", result.checksum, 8);
    put_sensors(answer);
    return POET_OK;
}

static int page(poet_server *server, const char *arguments, poet_text *answer)
{
    static const char usage[] = "expected: page in|out bytes repeats sequential|scattered";
    poet_page_bench work = {0};
    if (!poet_read_char(&arguments, ' ')) {
        return fail(answer, POET_E_ARGUMENT, usage);
    }
    work.in = poet_read_word(&arguments, "in");
    if ((!work.in && !poet_read_word(&arguments, "out")) || !read_unsigned(&arguments, &work.bytes) ||
        !read_unsigned(&arguments, &work.repeats) || !poet_read_char(&arguments, ' ')) {
        return fail(answer, POET_E_ARGUMENT, usage);
    }
    work.scattered = poet_read_word(&arguments, "scattered");
    if ((!work.scattered && !poet_read_word(&arguments, "sequential")) || !at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, usage);
    }

    lose_residents(server);
    int status = open_pager(server);
    if (status == POET_OK) {
        status = poet_bench_page(&server->pager, server->ram, server->ram_bytes, &work);
    }
    note_card(server, status);
    if (status != POET_OK) {
        return finish(answer, status);
    }
    put_number(answer, "ticks", work.ticks);
    put_number(answer, "repeats", work.repeats);
    put_number(answer, "bytes", work.bytes);
    put_sensors(answer);
    return POET_OK;
}

static int idle(poet_server *server, const char *arguments, poet_text *answer)
{
    (void)server;
    uint32_t ticks;
    if (!read_unsigned(&arguments, &ticks) || !at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, "expected: idle ticks");
    }
    poet_board_window(true);
    const uint32_t before = poet_board_ticks();
    poet_board_idle(ticks);
    const uint32_t after = poet_board_ticks();
    poet_board_window(false);
    put_number(answer, "ticks", after - before);
    return POET_OK;
}

/* The bytes of a resident tensor; NULL for another one. */
static uint8_t *resident_bytes(const poet_server *server, uint32_t index, uint32_t *size)
{
    const poet_model *model = server->built->model;
    if (index >= model->resident_count) {
        return NULL;
    }
    *size = model->residents[index].bytes;
    return server->ram + model->residents[index].offset;
}

/* A tensor on the card, which has its number behind the residents; NULL if there is none. */
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
    int status = kept != NULL ? open_record(server, true) : POET_E_ARGUMENT;
    if (status == POET_OK) {
        status = poet_record_put(&server->record, kept, offset, data, count);
        note_card(server, status);
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
    int status = kept != NULL ? open_record(server, false) : POET_E_ARGUMENT;
    if (status == POET_OK) {
        status = poet_record_get(&server->record, kept, offset, data, count);
        note_card(server, status);
    }
    return status;
}

static int put(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t index;
    uint32_t offset;
    uint8_t data[POET_LINE_BYTES / 2u];
    if (!read_unsigned(&arguments, &index) || !read_unsigned(&arguments, &offset) || !poet_read_char(&arguments, ' ')) {
        return fail(answer, POET_E_ARGUMENT, "expected: put INDEX offset hex");
    }
    const uint32_t digits = (uint32_t)strlen(arguments);
    if (digits % 2u != 0 || digits / 2u > sizeof data) {
        return finish(answer, POET_E_ARGUMENT);
    }
    for (uint32_t i = 0; i < digits / 2u; i++) {
        uint32_t value;
        if (!poet_read_hex(&arguments, 2, &value)) {
            return fail(answer, POET_E_ARGUMENT, "data must be lower-case hex");
        }
        data[i] = (uint8_t)value;
    }
    const int status = put_bytes(server, index, offset, data, digits / 2u);
    if (status != POET_OK) {
        return fail_record(answer, status);
    }
    put_number(answer, "bytes", digits / 2u);
    return POET_OK;
}

static int get(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t index;
    uint32_t offset;
    uint32_t count;
    uint8_t data[MOST_GET_BYTES];
    if (!read_unsigned(&arguments, &index) || !read_unsigned(&arguments, &offset) ||
        !read_unsigned(&arguments, &count) || !at_end(arguments) || count > MOST_GET_BYTES) {
        return fail(answer, POET_E_ARGUMENT, "expected: get INDEX offset count, count at most 224");
    }
    const int status = get_bytes(server, index, offset, data, count);
    if (status != POET_OK) {
        return fail_record(answer, status);
    }
    put_key(answer, "data");
    for (uint32_t i = 0; i < count; i++) {
        poet_text_hex(answer, data[i], 2);
    }
    return POET_OK;
}

/* How many batches the card holds from now on; their tensors are to be put there anew. */
static int batches(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t count;
    if (!read_unsigned(&arguments, &count) || !at_end(arguments) || count == 0) {
        return fail(answer, POET_E_ARGUMENT, "expected: batches COUNT, at least 1");
    }
    if (!keeps_tensors(server)) {
        return fail(answer, POET_E_UNSUPPORTED, "the built model keeps no tensors on the card");
    }
    int status = open_record(server, true);
    if (status == POET_OK || status == POET_E_ABSENT) {
        server->preparing = status == POET_E_ABSENT || server->preparing;
        status = server->card_up ? poet_record_set_batches(&server->record, count) : POET_E_ABSENT;
    }
    if (status != POET_OK) {
        server->preparing = false;
        return finish(answer, status);
    }
    put_number(answer, "batches", count);
    return POET_OK;
}

/* The bits of the model's loss; zero in a model without one. */
static uint32_t loss_bits(const poet_server *server)
{
    const poet_model *model = server->built->model;
    uint32_t bits = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == POET_RESIDENT_LOSS && model->residents[i].bytes == sizeof bits) {
            memcpy(&bits, server->ram + model->residents[i].offset, sizeof bits);
        }
    }
    return bits;
}

static int fail_step(poet_text *answer, int status, const poet_run *run)
{
    answer->length = 0;
    poet_text_string(answer, "schedule step ");
    poet_text_decimal(answer, run->steps);
    poet_text_string(answer, ": ");
    poet_text_string(answer, explain(status));
    return status;
}

static int step(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t rate_nano;
    uint32_t trace;
    if (!read_unsigned(&arguments, &rate_nano) || !read_unsigned(&arguments, &trace) || trace > 1u ||
        !at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, "expected: step learning_rate_nano 0|1");
    }
    poet_run run = {.learning_rate = (float)(rate_nano / 1e9), .trace = trace == 1u};
    int status = POET_OK;
    if (keeps_tensors(server)) {
        status = open_record(server, false);
        if (status != POET_OK) {
            return fail_record(answer, status);
        }
        status = read_residents_back(server);
        note_card(server, status);
        if (status == POET_E_ORDER) {
            return fail(answer, status, "restore or commit first: the card has weights that are not in RAM");
        }
        run.record = &server->record;
    }
    if (status == POET_OK && poet_runner_needs_card(&server->runner, run.trace)) {
        status = open_pager(server);
        run.pager = &server->pager;
    }
    if (status != POET_OK) {
        return finish(answer, status);
    }
    status = poet_runner_step(&server->runner, &run);
    note_card(server, status);
    if (status != POET_OK) {
        if (run.record != NULL) {
            lose_residents(server);
            server->record_known = false; /* the failure may have been that of the record itself */
        }
        return fail_step(answer, status, &run);
    }
    put_number(answer, "ticks", run.ticks);
    put_number(answer, "peak", run.peak_bytes);
    put_number(answer, "arena", run.arena_bytes);
    put_number(answer, "page_ins", run.page_ins);
    put_number(answer, "page_outs", run.page_outs);
    put_hex(answer, "loss", loss_bits(server), 8);
    if (run.record != NULL) {
        put_number(answer, "committed", run.record->step);
    }
    return POET_OK;
}

/* Answers with some rows of the last step's trace: what each schedule step took, or its peak. */
static int put_trace(poet_server *server, const char *arguments, poet_text *answer, const char *key, bool peaks)
{
    uint32_t first;
    uint32_t count;
    if (!read_unsigned(&arguments, &first) || !read_unsigned(&arguments, &count) || !at_end(arguments) ||
        count > MOST_STEPS) {
        return fail(answer, POET_E_ARGUMENT, "expected: times|peaks FIRST count, count at most 24");
    }
    const uint32_t steps = server->built->schedule->step_count;
    if (first > steps || count > steps - first) {
        return fail(answer, POET_E_ARGUMENT, "the schedule has fewer steps");
    }
    put_key(answer, key);
    for (uint32_t i = 0; i < count; i++) {
        poet_trace_row row;
        const int status = poet_runner_read_trace(&server->runner, &server->pager, first + i, &row);
        if (status == POET_E_ABSENT) {
            return fail(answer, status, "the last step was not traced, or its trace was lost");
        }
        if (status != POET_OK) {
            return finish(answer, status);
        }
        if (i > 0) {
            poet_text_char(answer, ',');
        }
        poet_text_decimal(answer, peaks ? row.peak_bytes : row.ticks);
    }
    return POET_OK;
}

static int times(poet_server *server, const char *arguments, poet_text *answer)
{
    return put_trace(server, arguments, answer, "ticks", false);
}

static int peaks(poet_server *server, const char *arguments, poet_text *answer)
{
    return put_trace(server, arguments, answer, "bytes", true);
}

static int commit_record(poet_server *server, uint32_t step_number, uint32_t *bytes)
{
    const int status = poet_record_commit(&server->record, step_number);
    if (status == POET_E_ORDER) {
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

static int commit(poet_server *server, const char *arguments, poet_text *answer)
{
    uint32_t step_number;
    if (!read_unsigned(&arguments, &step_number) || !at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, "expected: commit STEP");
    }
    int status = keeps_tensors(server) ? open_record(server, true) : open_pager(server);
    if (status != POET_OK) {
        return fail_record(answer, status);
    }
    uint32_t bytes;
    poet_board_window(true);
    const uint32_t before = poet_board_ticks();
    status = keeps_tensors(server)
                 ? commit_record(server, step_number, &bytes)
                 : poet_checkpoint_commit(&server->card, server->built->model, server->ram, step_number, &bytes);
    const uint32_t after = poet_board_ticks();
    poet_board_window(false);
    note_card(server, status);
    if (status == POET_E_ORDER) {
        return fail(answer, status, "not all tensors of the first record, or no batches, have been put on the card");
    }
    if (status != POET_OK) {
        return finish(answer, status);
    }
    put_number(answer, "ticks", after - before);
    put_number(answer, "bytes", bytes);
    return POET_OK;
}

static int restore_record(poet_server *server, uint32_t *step_number, uint32_t *bytes)
{
    const int status = poet_record_restore(&server->record, &server->card);
    server->record_known = status == POET_OK;
    server->record_status = status;
    server->residents_count = status == POET_OK;
    server->residents_stale = false;
    server->preparing = false;
    *step_number = server->record.step;
    *bytes = poet_record_bytes(&server->record);
    return status;
}

static int restore(poet_server *server, const char *arguments, poet_text *answer)
{
    if (!at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, "restore takes no arguments");
    }
    uint32_t step_number;
    uint32_t bytes;
    int status = open_pager(server);
    if (status != POET_OK) {
        return finish(answer, status);
    }
    status = keeps_tensors(server)
                 ? restore_record(server, &step_number, &bytes)
                 : poet_checkpoint_restore(&server->card, server->built->model, server->ram, &step_number, &bytes);
    note_card(server, status);
    if (status == POET_E_ABSENT) {
        return fail(answer, status, "no commit of this model on the card");
    }
    if (status != POET_OK) {
        return finish(answer, status);
    }
    put_number(answer, "step", step_number);
    put_number(answer, "bytes", bytes);
    if (keeps_tensors(server)) {
        put_number(answer, "batches", server->record.batches);
    }
    return POET_OK;
}

static int stack(poet_server *server, const char *arguments, poet_text *answer)
{
    (void)server;
    if (!at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, "stack takes no arguments");
    }
    put_number(answer, "bytes", poet_board_stack_peak());
    return POET_OK;
}

static int format(poet_server *server, const char *arguments, poet_text *answer)
{
    if (!at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, "format takes no arguments");
    }
    int status = bring_card_up(server);
    if (status == POET_OK) {
        status = poet_pager_format(&server->card);
        server->record_known = false;
    }
    note_card(server, status);
    if (status != POET_OK) {
        return finish(answer, status);
    }
    put_number(answer, "blocks", server->card.block_count);
    return POET_OK;
}

/* The board leaves when the answer has been sent. */
static int bootloader(poet_server *server, const char *arguments, poet_text *answer)
{
    if (!at_end(arguments)) {
        return fail(answer, POET_E_ARGUMENT, "bootloader takes no arguments");
    }
    if (!poet_board_has_bootloader) {
        return fail(answer, POET_E_UNSUPPORTED, "this board has no bootloader");
    }
    server->leaving = true;
    return POET_OK;
}

/* --- dispatch --- */

static const struct {
    const char *name;
    int (*run)(poet_server *server, const char *arguments, poet_text *answer);
    bool needs_plan;
} verbs[] = {
    {"hello", hello, false},  {"bench", bench, false},    {"page", page, false},
    {"idle", idle, false},    {"put", put, true},         {"get", get, true},
    {"step", step, true},     {"times", times, true},     {"peaks", peaks, true},
    {"commit", commit, true}, {"batches", batches, true}, {"restore", restore, true},
    {"stack", stack, false},  {"format", format, false},  {"bootloader", bootloader, false},
};

int poet_command_run(poet_server *server, const char *body, poet_text *answer)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (!poet_read_word(&body, verbs[i].name)) {
            continue;
        }
        if (verbs[i].needs_plan && server->runner_status != POET_OK) {
            return fail(answer, server->runner_status, explain_plan(server->runner_status));
        }
        return verbs[i].run(server, body, answer);
    }
    return fail(answer, POET_E_UNSUPPORTED, "unknown verb");
}
