/* SPDX-License-Identifier: Apache-2.0 */
/* A small model and its schedule, with every kind of step, in tables that a fuzz target may damage. */
#ifndef POET_FUZZ_MODEL_H
#define POET_FUZZ_MODEL_H

#include <string.h>

#include "board.h"
#include "poet/built.h"
#include "poet/crc32.h"
#include "poet/operator.h"
#include "poet/record.h"

enum {
    FUZZ_RESIDENTS = 5,
    FUZZ_KEPT = 3,
    FUZZ_UNITS = 2,
    FUZZ_CHECKS = 3,
    FUZZ_PARAMS = 12,
    FUZZ_CALLS = 12,
    FUZZ_WORDS = 36,
    FUZZ_PAGES = 2,
    FUZZ_PAGE_BLOCKS = 2,
    FUZZ_BATCHES = 2,
    FUZZ_OPERATORS = 7
};

/* No padding and no pointer: any bytes are a model, most of them a damaged one. */
typedef struct fuzz_tables {
    uint32_t ram_bytes;
    uint32_t resident_bytes;
    uint32_t home_blocks;
    uint32_t batch_block;
    uint32_t batch_blocks;
    poet_call calls[FUZZ_CALLS];
    poet_resident residents[FUZZ_RESIDENTS];
    poet_kept kept[FUZZ_KEPT];
    int32_t params[FUZZ_PARAMS];
    uint32_t words[FUZZ_WORDS];
} fuzz_tables;

static const poet_operator fuzz_operators[FUZZ_OPERATORS] = {
    POET_STEP_ROW(relu, 1, 0),         POET_STEP_ROW(add, 2, 0),        POET_OPERATOR_ROW(NLL_LOSS, nll_loss),
    POET_OPERATOR_ROW(SGD, sgd),       POET_OPERATOR_ROW(FETCH, fetch), POET_OPERATOR_ROW(SGD_UPDATE, sgd_update),
    POET_OPERATOR_ROW(COMMIT, commit),
};

/* relu(x), paged out and in; logits = relu(x) + a constant, their loss, the step of a weight in RAM; a weight and a
 * batch from the card, and the weight's next version. Residents take 288 bytes. */
static const fuzz_tables fuzz_whole = {
    .ram_bytes = 288 + 1024,
    .resident_bytes = 288,
    .home_blocks = 2,
    .batch_block = 6,
    .batch_blocks = 1,
    .calls =
        {
            {0, 1, 1, 0, 0, 0},
            {POET_PAGE_OUT, 0, 0, 0, 0, 2},
            {POET_PAGE_IN, 0, 0, 0, 0, 6},
            {1, 2, 1, POET_WAITS, 0, 10},
            {2, 2, 1, 0, 1, 13},
            {POET_PAGE_OUT, 0, 0, 0, 0, 16},
            {POET_PAGE_IN, 0, 0, 0, 0, 16},
            {4, 1, 1, 0, 0, 20}, /* a batch */
            {4, 1, 1, 0, 0, 22},
            {5, 2, 1, POET_WORKSPACE | POET_WAITS, 3, 24},
            {3, 2, 1, POET_CHANGES, 0, 28},
            {6, 0, 0, 0, 11, 31},
        },
    .residents =
        {
            {64, 64, POET_RESIDENT_INPUT},
            {128, 64, POET_RESIDENT_GRADIENT},
            {0, 64, POET_RESIDENT_PARAMETER},
            {192, 16, POET_RESIDENT_TARGET},
            {208, 4, POET_RESIDENT_LOSS},
        },
    .kept =
        {
            {64, 0, 1, 0, 0, POET_RESIDENT_PARAMETER},
            {64, 6, 1, 0, POET_NO_CHECK, POET_RESIDENT_INPUT},
            {64, 4, 2, 0, 2, POET_RESIDENT_CONSTANT}, /* by rows, and nothing but the host reads it */
        },
    .params = {16, 4, 4, 16, 16, 0, 0, 0, 0, 0, 0, 1},
    .words = {64,  288,           /* relu */
              288, 64,  0,   0,   /* out, to the first page */
              352, 64,  0,   0,   /* in */
              352, 1,   416,      /* add a constant */
              416, 192, 208,      /* loss */
              416, 64,  1,   1,   /* out and in */
              6,   352,           /* fetch the batch */
              2,   352,           /* fetch the weight */
              128, 352, 2,   544, /* its next version */
              128, 0,   0},
};

static fuzz_tables fuzz_now;
static const uint32_t fuzz_constant_words[16] = {0x3f800000u};

/* Each table for itself, so that the address sanitizer sees a step over its end. */
static poet_call fuzz_calls[FUZZ_CALLS];
static poet_resident fuzz_residents[FUZZ_RESIDENTS];
static poet_kept fuzz_kept[FUZZ_KEPT];
static int32_t fuzz_params[FUZZ_PARAMS];
static uint32_t fuzz_words[FUZZ_WORDS];
static poet_page fuzz_pages[FUZZ_PAGES];
static poet_check fuzz_checks[FUZZ_CHECKS];
static uint32_t fuzz_homes[POET_HOME_WORDS(FUZZ_UNITS)];
static poet_trace_part fuzz_trace;
static poet_model fuzz_model;
static poet_schedule fuzz_schedule;
static poet_built fuzz_built;

/* Makes model and schedule of what `fuzz_now` says. The check is right whatever it says: what passes it is followed. */
static inline void fuzz_build(void)
{
    memcpy(fuzz_calls, fuzz_now.calls, sizeof fuzz_calls);
    memcpy(fuzz_residents, fuzz_now.residents, sizeof fuzz_residents);
    memcpy(fuzz_kept, fuzz_now.kept, sizeof fuzz_kept);
    memcpy(fuzz_params, fuzz_now.params, sizeof fuzz_params);
    memcpy(fuzz_words, fuzz_now.words, sizeof fuzz_words);
    fuzz_model = (poet_model){
        .graph_hash = 1,
        .resident_bytes = fuzz_now.resident_bytes,
        .resident_count = FUZZ_RESIDENTS,
        .micro_batches = 1,
        .residents = fuzz_residents,
        .constant_bytes = sizeof fuzz_constant_words,
        .constant_crc = poet_crc32(0, fuzz_constant_words, sizeof fuzz_constant_words),
        .constant_words = fuzz_constant_words,
        .kept_count = FUZZ_KEPT,
        .unit_count = FUZZ_UNITS,
        .check_count = FUZZ_CHECKS,
        .bit_count = FUZZ_UNITS,
        .home_blocks = fuzz_now.home_blocks,
        .batch_block = fuzz_now.batch_block,
        .batch_blocks = fuzz_now.batch_blocks,
        .kept = fuzz_kept,
    };
    fuzz_schedule = (poet_schedule){
        .graph_hash = 1,
        .operators = fuzz_operators,
        .calls = fuzz_calls,
        .words = fuzz_words,
        .params = fuzz_params,
        .ram_bytes = fuzz_now.ram_bytes,
        .page_blocks = FUZZ_PAGE_BLOCKS,
        .call_count = FUZZ_CALLS,
        .word_count = FUZZ_WORDS,
        .param_count = FUZZ_PARAMS,
        .page_count = FUZZ_PAGES,
        .operator_count = FUZZ_OPERATORS,
    };
    uint32_t crc = poet_crc32(0, fuzz_calls, sizeof fuzz_calls);
    crc = poet_crc32(crc, fuzz_words, sizeof fuzz_words);
    fuzz_schedule.crc = poet_crc32(crc, fuzz_params, sizeof fuzz_params);
    fuzz_built = (poet_built){&fuzz_model, &fuzz_schedule, {fuzz_pages, fuzz_checks, fuzz_homes, &fuzz_trace},
                              NULL,        NULL,           &poet_all_operators};
}

/* Zeros for a tensor, or for one batch of it; a tensor of no batch refuses any but the first. */
static inline void fuzz_put(poet_record *record, const poet_kept *kept, uint32_t batch)
{
    static const uint8_t zeros[64];
    for (uint32_t offset = 0; offset < kept->bytes && offset < 4096u; offset += sizeof zeros) {
        const uint32_t left = kept->bytes - offset;
        const uint32_t part = left < sizeof zeros ? left : sizeof zeros;
        (void)poet_record_put(record, kept, batch * kept->bytes + offset, zeros, part);
    }
}

/* A first record, with tensors of zeros. Whether it is there: a damaged model may not fit the card. */
static inline bool fuzz_prepare(poet_record *record, const poet_block_device *card)
{
    poet_record_init(record, &fuzz_model, (uint8_t *)fuzz_ram, fuzz_checks, fuzz_homes);
    (void)poet_record_load(record, card);
    if (poet_record_set_batches(record, FUZZ_BATCHES) != POET_OK) {
        return false;
    }
    for (uint32_t i = 0; i < FUZZ_KEPT * FUZZ_BATCHES; i++) {
        fuzz_put(record, &fuzz_kept[i / FUZZ_BATCHES], i % FUZZ_BATCHES);
    }
    return poet_record_commit(record, 0) == POET_OK;
}

#endif
