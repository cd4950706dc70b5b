/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "poet/bench.h"
#include "poet/board.h"
#include "poet/crc32.h"

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Multiples of 2^-23 in [-1, 1): exact, so that every board sees the same input. */
static void fill_floats(float *data, uint32_t count, uint32_t *state)
{
    for (uint32_t i = 0; i < count; i++) {
        data[i] = (float)(int32_t)(next_random(state) >> 8) * 0x1p-23f - 1.0f;
    }
}

static void fill_indices(void *data, const poet_sizes *sizes, uint32_t *state)
{
    const uint32_t count = sizes->input_bytes[sizes->index_input] / sizes->index_bytes;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = next_random(state) % sizes->index_bound;
        if (sizes->index_bytes == 1u) {
            ((uint8_t *)data)[i] = (uint8_t)index;
        } else {
            ((uint32_t *)data)[i] = index;
        }
    }
}

typedef struct region {
    uint8_t *next;
    uint32_t left;
} region;

static void *reserve(region *region, uint32_t bytes)
{
    if (bytes > UINT32_MAX - 7u) {
        return NULL;
    }
    bytes = (bytes + 7u) / 8u * 8u;
    if (bytes > region->left) {
        return NULL;
    }
    void *place = region->next;
    region->next += bytes;
    region->left -= bytes;
    return place;
}

/* Lays out all operands and fills the inputs. */
static int prepare(const poet_sizes *sizes, region *free_ram, void **inputs, void **outputs, void **workspace)
{
    uint32_t random = 0x2545f491u;
    for (uint32_t i = 0; i < sizes->inputs; i++) {
        inputs[i] = reserve(free_ram, sizes->input_bytes[i]);
        if (inputs[i] == NULL) {
            return POET_E_MEMORY;
        }
        if (sizes->index_bound != 0 && sizes->index_input == i) {
            fill_indices(inputs[i], sizes, &random);
        } else {
            fill_floats(inputs[i], sizes->input_bytes[i] / 4u, &random);
        }
    }
    for (uint32_t i = 0; i < sizes->outputs; i++) {
        const uint32_t bytes = sizes->kept == POET_KEPT_OUTPUTS ? 0 : sizes->output_bytes[i];
        outputs[i] = sizes->in_place ? inputs[sizes->inputs - sizes->outputs + i] : reserve(free_ram, bytes);
        if (outputs[i] == NULL) {
            return POET_E_MEMORY;
        }
    }
    *workspace = reserve(free_ram, sizes->workspace_bytes);
    return *workspace != NULL ? POET_OK : POET_E_MEMORY;
}

/* What the runner does itself: none of these computes. */
static bool is_transfer(const poet_operator *operator)
{
    return operator->code == POET_OP_FETCH || operator->code == POET_OP_STORE || operator->code == POET_OP_COMMIT;
}

bool poet_bench_writes_card(const poet_operator *operator, const int32_t *params)
{
    poet_sizes sizes;
    return !is_transfer(operator) && operator->sizes(params, &sizes) == POET_OK && sizes.kept == POET_KEPT_OUTPUTS;
}

/* Where the outputs of an update go: one behind the other from the page area's start, in each run anew. */
typedef struct card_outputs {
    poet_pager *pager;
    uint32_t block;
    uint32_t checksum;
} card_outputs;

static int write_to_card(void *context, uint32_t output, const void *data, uint32_t bytes)
{
    card_outputs *outputs = context;
    (void)output;
    uint32_t crc;
    const uint32_t block = outputs->block;
    outputs->block += (bytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
    outputs->checksum = poet_crc32(outputs->checksum, data, bytes);
    return poet_pager_out(outputs->pager, block, data, bytes, &crc);
}

int poet_bench_operator(const poet_operator *operator, const int32_t *params, uint32_t repeats, uint8_t *ram,
                        uint32_t ram_bytes, poet_pager *pager, poet_operator_bench *result)
{
    poet_sizes sizes;
    int status = is_transfer(operator) ? POET_E_UNSUPPORTED : operator->sizes(params, &sizes);
    if (status != POET_OK) {
        return status;
    }
    const bool to_card = sizes.kept == POET_KEPT_OUTPUTS;
    if (to_card && pager == NULL) {
        return POET_E_ABSENT;
    }

    region free_ram = {ram, ram_bytes};
    void *inputs[POET_MAX_INPUTS];
    void *outputs[POET_MAX_OUTPUTS];
    void *workspace;
    status = prepare(&sizes, &free_ram, inputs, outputs, &workspace);
    if (status != POET_OK) {
        return status;
    }

    const void *operands[POET_MAX_INPUTS];
    for (uint32_t i = 0; i < sizes.inputs; i++) {
        operands[i] = inputs[i];
    }
    card_outputs card = {.pager = pager};
    const poet_sink sink = {&card, write_to_card};
    const poet_op_args args = {params, operands, outputs, workspace, 0x1p-10f, to_card ? &sink : NULL};

    result->ticks = 0;
    poet_board_window(true);
    uint32_t before = poet_board_ticks();
    for (uint32_t i = 0; status == POET_OK && i < repeats; i++) {
        card.block = to_card ? pager->page_area : 0u;
        card.checksum = 0;
        status = operator->run(&args);
        const uint32_t now = poet_board_ticks();
        result->ticks += now - before;
        before = now;
    }
    poet_board_window(false);

    result->workspace_bytes = sizes.workspace_bytes;
    result->output_bytes = 0;
    result->checksum = 0;
    for (uint32_t i = 0; i < sizes.outputs; i++) {
        result->output_bytes += sizes.output_bytes[i];
        result->checksum = to_card ? card.checksum : poet_crc32(result->checksum, outputs[i], sizes.output_bytes[i]);
    }
    return status;
}
