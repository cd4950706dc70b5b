/* SPDX-License-Identifier: Apache-2.0 */
/* `load`: a plan as data, in place of one that was built in (docs/SPEC.md, section 5). It arrives where it stays, at
 * the end of the RAM that plans share, with the runner's tables behind it; nothing of it is copied. */
#include <stddef.h>
#include <string.h>

#include "poet/board.h"
#include "poet/crc32.h"
#include "protocol/reply.h"
#include "protocol/verbs.h"
#include "runtime/plan_check.h"
#include "sketch.h"

POET_KERNELS(micro_batches)

#define MAGIC "POETPLAN"
#define MOST_PROGRAMS 4u
#define MOST_PART (POET_LINE_BYTES * 3u / 4u)

enum { BESIDE_EXTRACTION = 1, BESIDE_INFERENCE = 2, BESIDE_FEATURE_INFERENCE = 4 }; /* programs, in this order */

typedef struct document {
    char magic[8];
    uint32_t format, bytes, beside, constant_bytes;
    uint32_t bit_count, home_blocks, batch_block, batch_blocks;
    uint16_t resident_count, kept_count, unit_count, check_count;
    uint16_t micro_batches, param_count, page_count, samples, at_once, commit_each, unused[2];
} document;

typedef struct program {
    uint64_t graph_hash, schedule_hash;
    uint32_t resident_bytes, constant_bytes, constant_crc, ram_bytes, page_blocks, call_count;
    uint16_t resident_count, word_count, page_count, unused;
} program;

/* What the board makes of a document, behind it. */
typedef struct made {
    poet_model models[MOST_PROGRAMS];
    poet_schedule schedules[MOST_PROGRAMS];
    poet_plan inference, feature_inference;
    poet_extraction extraction;
    poet_trace_part trace;
} made;

static poet_built built = {NULL, NULL, {NULL, NULL, NULL, NULL}, NULL, NULL, &poet_all_operators};
static struct {
    uint8_t *begin;
    uint32_t bytes, received, held; /* of the document, of these so far, and up to the end of the RAM */
} arriving;

/* All parts begin at a multiple of 8. */
static uint64_t padded(uint64_t count, size_t size)
{
    return (count * size + 7u) / 8u * 8u;
}

/* Takes the next `count` structures of `size` bytes; NULL after the end. */
static void *take(uint8_t **cursor, const uint8_t *end, uint64_t count, size_t size)
{
    const uint64_t bytes = padded(count, size);
    if (bytes > (uint64_t)(end - *cursor)) {
        return NULL;
    }
    void *place = *cursor;
    *cursor += bytes;
    return place;
}

static uint32_t homes_of(const document *head)
{
    return POET_HOME_WORDS(head->bit_count);
}

static uint64_t bytes_behind(const document *head)
{
    return padded(1, sizeof(made)) + padded(head->page_count, sizeof(poet_page)) +
           padded(head->check_count, sizeof(poet_check)) + padded(homes_of(head), sizeof(uint32_t));
}

/* An operator's code becomes its place in this firmware's table. */
static bool name_operators(poet_call *calls, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (calls[i].op < POET_PAGE_IN) {
            const poet_operator *found = poet_operator_find(&poet_all_operators, calls[i].op);
            if (found == NULL) {
                return false;
            }
            calls[i].op = (uint8_t)(found - poet_all_operators.operators);
        }
    }
    return true;
}

/* The tables that all programs share. */
typedef struct shared {
    const document *head;
    const poet_resident *residents;
    const poet_kept *kept;
    const int32_t *params;
    const uint32_t *constants;
} shared;

static int open_program(const shared *all, const program *one, uint8_t **cursor, const uint8_t *end, poet_plan *plan)
{
    const document *head = all->head;
    poet_call *calls = take(cursor, end, one->call_count, sizeof *calls);
    const uint32_t *words = take(cursor, end, one->word_count, sizeof *words);
    if (calls == NULL || words == NULL || one->resident_count > head->resident_count ||
        one->constant_bytes > head->constant_bytes || one->page_count > head->page_count) {
        return POET_E_CORRUPT;
    }
    if (!name_operators(calls, one->call_count)) {
        return POET_E_UNSUPPORTED;
    }
    *(poet_model *)plan->model = (poet_model){
        .graph_hash = one->graph_hash,
        .resident_bytes = one->resident_bytes,
        .resident_count = one->resident_count,
        .micro_batches = head->micro_batches,
        .residents = all->residents,
        .constant_bytes = one->constant_bytes,
        .constant_crc = one->constant_crc,
        .constant_words = one->constant_bytes > 0 ? all->constants : NULL,
        .kept_count = head->kept_count,
        .unit_count = head->unit_count,
        .check_count = head->check_count,
        .commit_each = head->commit_each,
        .bit_count = head->bit_count,
        .home_blocks = head->home_blocks,
        .batch_block = head->batch_block,
        .batch_blocks = head->batch_blocks,
        .kept = all->kept,
    };
    uint32_t crc = poet_crc32(0, calls, one->call_count * (uint32_t)sizeof *calls);
    crc = poet_crc32(crc, words, one->word_count * (uint32_t)sizeof *words);
    *(poet_schedule *)plan->schedule = (poet_schedule){
        .graph_hash = one->graph_hash,
        .hash = one->schedule_hash,
        .operators = poet_all_operators.operators,
        .calls = calls,
        .words = words,
        .params = all->params,
        .crc = poet_crc32(crc, all->params, head->param_count * (uint32_t)sizeof *all->params),
        .ram_bytes = one->ram_bytes,
        .page_blocks = one->page_blocks,
        .call_count = one->call_count,
        .word_count = one->word_count,
        .param_count = head->param_count,
        .page_count = one->page_count,
        .operator_count = (uint8_t)poet_all_operators.count,
    };
    return POET_OK;
}

/* Makes `built` of what has arrived. */
static int open_document(void)
{
    uint8_t *cursor = arriving.begin;
    const uint8_t *end = cursor + padded(arriving.bytes, 1);
    uint8_t *behind = arriving.begin + padded(arriving.bytes, 1);
    const uint8_t *behind_end = arriving.begin + arriving.held;
    memset(behind, 0, (size_t)(behind_end - behind));
    const document *head = take(&cursor, end, 1, sizeof *head);
    if (head == NULL) {
        return POET_E_CORRUPT;
    }
    uint32_t programs = 1;
    for (uint32_t bit = BESIDE_EXTRACTION; bit <= BESIDE_FEATURE_INFERENCE; bit *= 2u) {
        programs += (head->beside & bit) != 0;
    }
    const program *one = take(&cursor, end, programs, sizeof *one);
    const shared all = {
        head,
        take(&cursor, end, head->resident_count, sizeof *all.residents),
        take(&cursor, end, head->kept_count, sizeof *all.kept),
        take(&cursor, end, head->param_count, sizeof *all.params),
        take(&cursor, end, head->constant_bytes, 1),
    };
    if (one == NULL || all.residents == NULL || all.kept == NULL || all.params == NULL || all.constants == NULL) {
        return POET_E_CORRUPT;
    }
    made *place = take(&behind, behind_end, 1, sizeof *place);
    built.tables.pages = take(&behind, behind_end, head->page_count, sizeof(poet_page));
    built.tables.checks = take(&behind, behind_end, head->check_count, sizeof(poet_check));
    built.tables.homes = take(&behind, behind_end, homes_of(head), sizeof(uint32_t));
    built.tables.trace = &place->trace;
    poet_plan plans[MOST_PROGRAMS];
    for (uint32_t i = 0; i < programs; i++) {
        plans[i] = (poet_plan){&place->models[i], &place->schedules[i]};
        const int status = open_program(&all, &one[i], &cursor, end, &plans[i]);
        if (status != POET_OK) {
            return status;
        }
        if (i > 0) {
            place->models[i].micro_batches = 1;
        }
    }
    const poet_plan *beside = &plans[1];
    if ((head->beside & BESIDE_EXTRACTION) != 0) {
        place->extraction = (poet_extraction){*beside++, head->samples, head->at_once, NULL};
        built.extraction = &place->extraction;
    }
    if ((head->beside & BESIDE_INFERENCE) != 0) {
        place->inference = *beside++;
        built.inference = &place->inference;
    }
    if ((head->beside & BESIDE_FEATURE_INFERENCE) != 0) {
        place->feature_inference = *beside;
        place->extraction.infer = &place->feature_inference;
    }
    built.model = plans[0].model;
    built.schedule = plans[0].schedule;
    return POET_OK;
}

/* Whether all plans of a document passed the runner's checks, and what their calls write lies apart. */
static int check_document(const poet_server *server)
{
    if (server->runner_status != POET_OK) {
        return server->runner_status;
    }
    if ((built.inference != NULL && server->inference_status != POET_OK) ||
        (built.extraction != NULL && server->extraction_status != POET_OK)) {
        return built.inference != NULL && server->inference_status != POET_OK ? server->inference_status
                                                                              : server->extraction_status;
    }
    const poet_plan *infer = built.extraction != NULL ? built.extraction->infer : NULL;
    return poet_plan_lies_apart(built.schedule) &&
                   (built.inference == NULL || poet_plan_lies_apart(built.inference->schedule)) &&
                   (built.extraction == NULL || poet_plan_lies_apart(built.extraction->plan.schedule)) &&
                   (infer == NULL || poet_plan_lies_apart(infer->schedule))
               ? POET_OK
               : POET_E_CORRUPT;
}

/* Nothing is loaded: as after a start without a built model. */
static void forget(poet_server *server, uint32_t held)
{
    built = (poet_built){.operators = &poet_all_operators};
    poet_server_take(server, &built, held);
}

/* The first part, which has the document's size. */
static int begin(poet_server *server, const uint8_t *part, uint32_t count)
{
    document head;
    memset(&arriving, 0, sizeof arriving);
    forget(server, 0);
    if (count < sizeof head) {
        return count == 0 ? POET_OK : POET_E_ARGUMENT;
    }
    memcpy(&head, part, sizeof head);
    if (memcmp(head.magic, MAGIC, sizeof head.magic) != 0 || head.format != POET_PLAN_FORMAT) {
        return POET_E_HASH;
    }
    const uint32_t room = server->ram_bytes / 8u * 8u;
    const uint64_t held = padded(head.bytes, 1) + bytes_behind(&head);
    if (held > room) {
        return POET_E_MEMORY;
    }
    arriving.begin = server->ram + (room - (uint32_t)held);
    arriving.bytes = head.bytes;
    arriving.held = server->ram_bytes - (room - (uint32_t)held);
    forget(server, arriving.held);
    return POET_OK;
}

static const char *explain(int status)
{
    switch (status) {
    case POET_E_HASH:
        return "it is no plan of this version of poet: plan again, or write the sketch's library again and upload it";
    case POET_E_UNSUPPORTED:
        return "the plan uses an operator that the sketch lacks: write its library again and upload it";
    case POET_E_MEMORY:
        return "the plan and its tables need more RAM than the sketch has";
    default:
        return "the plan is damaged or does not fit the sketch: plan again";
    }
}

static int finish(poet_server *server, uint32_t crc, poet_text *answer)
{
    if (arriving.bytes == 0 || arriving.received != arriving.bytes ||
        crc != poet_crc32(0, arriving.begin, arriving.bytes)) {
        return poet_reply_fail(answer, POET_E_CORRUPT, "the plan arrived damaged: send it anew");
    }
    int status = open_document();
    if (status == POET_OK) {
        poet_server_take(server, &built, arriving.held);
        status = check_document(server);
    }
    arriving.received = 0; /* its operators have other numbers now */
    if (status != POET_OK) {
        forget(server, 0);
        return poet_reply_fail(answer, status, explain(status));
    }
    poet_reply_hex(answer, "model", built.model->graph_hash, 16);
    poet_reply_hex(answer, "schedule", built.schedule->hash, 16);
    return POET_OK;
}

static int digit_of(char letter)
{
    return letter >= 'A' && letter <= 'Z'   ? letter - 'A'
           : letter >= 'a' && letter <= 'z' ? letter - 'a' + 26
           : letter >= '0' && letter <= '9' ? letter - '0' + 52
           : letter == '+'                  ? 62
           : letter == '/'                  ? 63
                                            : -1;
}

/* The bytes of a base64 text up to the end of the line; false if it is none. */
static bool read_base64(const char *text, uint8_t *data, uint32_t *count)
{
    uint32_t bits = 0;
    uint32_t held = 0;
    *count = 0;
    for (; *text != '\0' && *text != '='; text++) {
        const int digit = digit_of(*text);
        if (digit < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held >= 8) {
            held -= 8;
            data[(*count)++] = (uint8_t)(bits >> held);
        }
    }
    return true;
}

int poet_verb_load(poet_server *server, const char *arguments, poet_text *answer)
{
    static const char usage[] = "expected: load OFFSET base64, or load end CRC32";
    const char *cursor = arguments;
    uint32_t offset;
    uint8_t part[MOST_PART];
    uint32_t count;
    if (!poet_arithmetic_is_ieee()) {
        return poet_reply_fail(answer, POET_E_ARITHMETIC, POET_OTHER_ARITHMETIC);
    }
    if (poet_read_char(&cursor, ' ') && poet_read_word(&cursor, "end")) {
        uint32_t crc;
        if (!poet_read_char(&cursor, ' ') || !poet_read_hex(&cursor, 8, &crc) || !poet_arguments_end(cursor)) {
            return poet_reply_fail(answer, POET_E_ARGUMENT, usage);
        }
        return finish(server, crc, answer);
    }
    if (!poet_argument_unsigned(&arguments, &offset) || !poet_read_char(&arguments, ' ') ||
        !read_base64(arguments, part, &count)) {
        return poet_reply_fail(answer, POET_E_ARGUMENT, usage);
    }
    const int status = offset == 0 ? begin(server, part, count) : POET_OK;
    if (status != POET_OK) {
        return poet_reply_fail(answer, status, explain(status));
    }
    if (offset != arriving.received || count > arriving.bytes - offset) {
        return poet_reply_fail(answer, POET_E_ORDER, "parts come one after the other, from 0 on");
    }
    if (count > 0) {
        memcpy(arriving.begin + offset, part, count);
    }
    arriving.received += count;
    poet_reply_number(answer, "bytes", count);
    return POET_OK;
}
