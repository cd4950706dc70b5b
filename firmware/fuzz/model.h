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
    FUZZ_NODES = 8,
    FUZZ_VALUES = 3,
    FUZZ_RESIDENTS = 5,
    FUZZ_CONSTANTS = 1,
    FUZZ_KEPT = 3,
    FUZZ_UNITS = 2,
    FUZZ_CHECKS = 3,
    FUZZ_PARAMS = 8,
    FUZZ_OPERANDS = 18,
    FUZZ_STEPS = 17,
    FUZZ_OFFSETS = 5,
    FUZZ_LIVE = 4,
    FUZZ_PAGES = 2,
    FUZZ_BATCHES = 2
};

/* No padding and no pointer: any bytes are a model, most of them a damaged one. */
typedef struct fuzz_tables {
    uint32_t schedule_arena_bytes;
    uint32_t resident_bytes;
    uint32_t home_blocks;
    uint32_t batch_block;
    uint32_t batch_blocks;
    poet_node nodes[FUZZ_NODES];
    poet_value values[FUZZ_VALUES];
    poet_resident residents[FUZZ_RESIDENTS];
    poet_constant constants[FUZZ_CONSTANTS];
    poet_kept kept[FUZZ_KEPT];
    int32_t params[FUZZ_PARAMS];
    poet_step steps[FUZZ_STEPS];
    uint32_t offsets[FUZZ_OFFSETS];
    uint16_t operands[FUZZ_OPERANDS];
} fuzz_tables;

/* relu(x), paged out and in; logits = relu(x) + a constant, their loss, the step of a weight in RAM; a weight and a
 * batch from the card, and the weight's next version. */
static const fuzz_tables fuzz_whole = {
    .schedule_arena_bytes = 1024,
    .resident_bytes = 288,
    .home_blocks = 2,
    .batch_block = 6,
    .batch_blocks = 1,
    .nodes =
        {
            {POET_OP_RELU, 1, 1, POET_USES_CPU, 0, 0, 0},
            {POET_OP_ADD, 2, 1, POET_USES_CPU, 0, 2, 0},
            {POET_OP_NLL_LOSS, 2, 1, POET_USES_CPU, 1, 5, 0},
            {POET_OP_SGD, 2, 1, POET_USES_CPU, 0, 8, 0},
            {POET_OP_FETCH, 1, 1, POET_USES_BUS, 0, 11, 0},
            {POET_OP_SGD_UPDATE, 2, 1, POET_USES_BOTH, 3, 13, 576},
            {POET_OP_COMMIT, 0, 0, POET_USES_BOTH, 5, 0, 0},
            {POET_OP_FETCH, 1, 1, POET_USES_BUS, 0, 16, 0},
        },
    .values = {{64, 0, 0}, {64, 1, 1}, {64, 0, POET_NO_PAGE}},
    .residents =
        {
            {64, 64, POET_RESIDENT_INPUT},
            {128, 64, POET_RESIDENT_GRADIENT},
            {0, 64, POET_RESIDENT_PARAMETER},
            {192, 16, POET_RESIDENT_TARGET},
            {208, 4, POET_RESIDENT_LOSS},
        },
    .constants = {{0, 64}},
    .kept =
        {
            {64, 0, 1, 0, 0, POET_RESIDENT_PARAMETER},
            {64, 6, 1, 0, POET_NO_CHECK, POET_RESIDENT_INPUT},
            {64, 4, 2, 0, 2, POET_RESIDENT_CONSTANT}, /* by rows, and nothing but the host reads it */
        },
    .params = {16, 4, 4, 16, 16, 1},
    .operands = {3, 0, 0, 8, 1, 1, 6, 7, 4, 5, 5, 10, 2, 1, 2, 9, 9, 2},
    .steps =
        {
            {POET_COMPUTE, 0, 0, 0},
            {POET_PAGE_OUT, 0, 0, 0},
            {POET_FREE, 0, 0, 0},
            {POET_FREE, 0, POET_NO_VALUE, 0},
            {POET_PAGE_IN, 0, 0, 64},
            {POET_COMPUTE, 0, 1, 1},
            {POET_FREE, 0, 0, 0},
            {POET_COMPUTE, 0, 2, 0},
            {POET_PAGE_OUT, 0, 1, 0},
            {POET_FREE, 0, 1, 0},
            {POET_PAGE_IN, 0, 1, 0},
            {POET_COMPUTE, 0, 7, 2},
            {POET_FREE, 0, 2, 0},
            {POET_COMPUTE, 0, 4, 2},
            {POET_COMPUTE, 0, 5, 3},
            {POET_COMPUTE, 0, 3, 0},
            {POET_COMPUTE, 0, 6, 0},
        },
    .offsets = {0, 128, 64, 256, 0},
};

static fuzz_tables fuzz_now;
static const uint32_t fuzz_constant_words[16] = {0x3f800000u};

/* Each table for itself, so that the address sanitizer sees a step over its end. */
static poet_node fuzz_nodes[FUZZ_NODES];
static poet_value fuzz_values[FUZZ_VALUES];
static poet_resident fuzz_residents[FUZZ_RESIDENTS];
static poet_constant fuzz_constants[FUZZ_CONSTANTS];
static poet_kept fuzz_kept[FUZZ_KEPT];
static int32_t fuzz_params[FUZZ_PARAMS];
static uint16_t fuzz_operands[FUZZ_OPERANDS];
static poet_step fuzz_steps[FUZZ_STEPS];
static uint32_t fuzz_offsets[FUZZ_OFFSETS];
static poet_block fuzz_blocks[FUZZ_LIVE];
static poet_page fuzz_pages[FUZZ_PAGES];
static poet_check fuzz_checks[FUZZ_CHECKS];
static uint32_t fuzz_homes[2 * POET_BIT_WORDS(FUZZ_UNITS)];
static poet_trace_part fuzz_trace;
static poet_model fuzz_model;
static poet_schedule fuzz_schedule;
static poet_built fuzz_built;

/* Makes model and schedule of what `fuzz_now` says. */
static inline void fuzz_build(void)
{
    memcpy(fuzz_nodes, fuzz_now.nodes, sizeof fuzz_nodes);
    memcpy(fuzz_values, fuzz_now.values, sizeof fuzz_values);
    memcpy(fuzz_residents, fuzz_now.residents, sizeof fuzz_residents);
    memcpy(fuzz_constants, fuzz_now.constants, sizeof fuzz_constants);
    memcpy(fuzz_kept, fuzz_now.kept, sizeof fuzz_kept);
    memcpy(fuzz_params, fuzz_now.params, sizeof fuzz_params);
    memcpy(fuzz_operands, fuzz_now.operands, sizeof fuzz_operands);
    memcpy(fuzz_steps, fuzz_now.steps, sizeof fuzz_steps);
    memcpy(fuzz_offsets, fuzz_now.offsets, sizeof fuzz_offsets);
    fuzz_model = (poet_model){
        .graph_hash = 1,
        .resident_bytes = fuzz_now.resident_bytes,
        .node_count = FUZZ_NODES,
        .value_count = FUZZ_VALUES,
        .resident_count = FUZZ_RESIDENTS,
        .param_count = FUZZ_PARAMS,
        .operand_count = FUZZ_OPERANDS,
        .micro_batches = 1,
        .nodes = fuzz_nodes,
        .values = fuzz_values,
        .residents = fuzz_residents,
        .params = fuzz_params,
        .operands = fuzz_operands,
        .constant_count = FUZZ_CONSTANTS,
        .constant_bytes = sizeof fuzz_constant_words,
        .constant_crc = poet_crc32(0, fuzz_constant_words, sizeof fuzz_constant_words),
        .constants = fuzz_constants,
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
        .arena_bytes = fuzz_now.schedule_arena_bytes,
        .step_count = FUZZ_STEPS,
        .offset_count = FUZZ_OFFSETS,
        .live_count = FUZZ_LIVE,
        .page_count = FUZZ_PAGES,
        .steps = fuzz_steps,
        .offsets = fuzz_offsets,
    };
    fuzz_built = (poet_built){&fuzz_model,
                              &fuzz_schedule,
                              {fuzz_blocks, fuzz_pages, fuzz_checks, fuzz_homes, &fuzz_trace, &poet_all_operators},
                              NULL,
                              NULL};
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
