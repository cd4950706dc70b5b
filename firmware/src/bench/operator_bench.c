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

static void make_positive(float *data, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        data[i] = data[i] < 0.0f ? -data[i] : data[i];
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

/* Bytes of -127 to 127. */
static void fill_bytes(int8_t *data, uint32_t count, uint32_t *state)
{
    for (uint32_t i = 0; i < count; i++) {
        data[i] = (int8_t)((int32_t)(next_random(state) % 255u) - 127);
    }
}

static void fill_equal(float *data, uint32_t count, float number)
{
    for (uint32_t i = 0; i < count; i++) {
        data[i] = number;
    }
}

#define USUAL_SCALE 0x1p-9f /* about half of the sums of bytes that it multiplies stay within a byte */

static bool is_in(uint32_t bits, uint32_t input)
{
    return (bits >> input & 1u) != 0;
}

static void fill_input(void *data, const poet_sizes *sizes, uint32_t input, uint32_t *random)
{
    const uint32_t bytes = sizes->input_bytes[input];
    if (sizes->index_bound != 0 && sizes->index_input == input) {
        fill_indices(data, sizes, random);
    } else if (is_in(sizes->s8, input)) {
        fill_bytes(data, bytes, random);
    } else if (is_in(sizes->starts | sizes->scales, input)) {
        fill_equal(data, bytes / 4u, is_in(sizes->scales, input) ? USUAL_SCALE : 0.0f);
    } else {
        fill_floats(data, bytes / 4u, random);
    }
    if (is_in(sizes->not_negative, input)) {
        make_positive(data, bytes / 4u);
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
        const bool kept =
            (sizes->kept & POET_KEPT_INPUT) != 0 && (sizes->kept_input == i || is_in(sizes->kept_also, i));
        inputs[i] = reserve(free_ram, kept ? 0 : sizes->input_bytes[i]);
        if (inputs[i] == NULL) {
            return POET_E_MEMORY;
        }
        if (!kept) {
            fill_input(inputs[i], sizes, i, &random);
        }
    }
    for (uint32_t i = 0; i < sizes->outputs; i++) {
        const uint32_t bytes = (sizes->kept & POET_KEPT_OUTPUTS) != 0 ? 0 : sizes->output_bytes[i];
        outputs[i] = sizes->in_place ? inputs[sizes->inputs - sizes->outputs + i] : reserve(free_ram, bytes);
        if (outputs[i] == NULL) {
            return POET_E_MEMORY;
        }
    }
    *workspace = reserve(free_ram, sizes->workspace_bytes);
    return *workspace != NULL ? POET_OK : POET_E_MEMORY;
}

/* The input in whose place a step has a sum so far, or what is gathered: elsewhere the operator begins with a copy of
 * it. 0 for none: what may take over the first input copies nothing. */
static uint32_t gathers(uint32_t code)
{
    switch (code) {
#define POET_TAKES_OVER(NAME, inputs) \
    case POET_OP_##NAME:              \
        return ((inputs) & 1u) == 0 ? (inputs) / 2u : 0;
#include "poet/takes_over.def"
    default:
        return 0;
    }
}

/* What the runner does itself: none of these computes. */
static bool is_transfer(const poet_operator *operator)
{
    return operator->code == POET_OP_FETCH || operator->code == POET_OP_STORE || operator->code == POET_OP_COMMIT;
}

bool poet_bench_needs_card(const poet_operator *operator, const int32_t *params)
{
    poet_sizes sizes;
    return !is_transfer(operator) && operator->sizes(params, &sizes) == POET_OK && sizes.kept != POET_KEPT_NONE;
}

/* The kept tensors of an update or a streaming operator, in the page area: what is read from its start on, what is
 * written after that, one output after the other, in each run anew. */
typedef struct card_operands {
    poet_pager *pager;
    uint32_t first_output;
    uint32_t block;     /* of the next output */
    uint32_t row_bytes; /* of the input: all of it, unless it lies by rows */
    uint32_t checksum;
    const void *arriving;
    uint32_t arriving_bytes;
    uint32_t crc; /* of what was read, so that the check of a kept tensor is timed */
} card_operands;

static uint32_t blocks_of(uint32_t bytes)
{
    return (bytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
}

static int write_to_card(void *context, uint32_t output, const void *data, uint32_t bytes)
{
    card_operands *card = context;
    (void)output;
    uint32_t crc;
    const uint32_t block = card->block;
    card->block += blocks_of(bytes);
    card->checksum = poet_crc32_quick(card->checksum, data, bytes);
    return poet_pager_out(card->pager, block, data, bytes, &crc);
}

/* As the runner does: the checks of both versions, and what was written is read back. */
static int write_row_to_card(void *context, uint32_t output, uint32_t row, void *before, const void *after)
{
    card_operands *card = context;
    (void)output;
    uint32_t crc;
    const uint32_t block = card->block + row * blocks_of(card->row_bytes);
    card->crc = poet_crc32_quick(row, before, card->row_bytes);
    card->checksum = poet_crc32_quick(card->checksum, after, card->row_bytes);
    const int status = poet_pager_out(card->pager, block, after, card->row_bytes, &crc);
    return status != POET_OK ? status : poet_pager_in(card->pager, block, before, card->row_bytes, crc);
}

static int read_from_card(void *context, uint32_t input, uint32_t offset, void *data, uint32_t bytes)
{
    card_operands *card = context;
    (void)input;
    card->arriving = data;
    card->arriving_bytes = bytes;
    const uint32_t block =
        offset / card->row_bytes * blocks_of(card->row_bytes) + offset % card->row_bytes / POET_BLOCK_BYTES;
    return poet_pager_start_unchecked_in(card->pager, card->pager->page_area + block, data, bytes);
}

static int wait_for_card(void *context)
{
    card_operands *card = context;
    const int status = poet_pager_wait(card->pager);
    card->crc = poet_crc32_quick(card->crc, card->arriving, card->arriving_bytes);
    return status;
}

/* Pseudo-random weights, none negative since Adam's averages of squares are read there too, in some blocks of the page
 * area, one at a time. */
static int fill_blocks(poet_pager *pager, uint32_t first, uint32_t blocks, uint32_t *random)
{
    float block[POET_BLOCK_BYTES / sizeof(float)];
    uint32_t crc;
    for (uint32_t i = first; i < first + blocks; i++) {
        fill_floats(block, POET_BLOCK_BYTES / sizeof(float), random);
        make_positive(block, POET_BLOCK_BYTES / sizeof(float));
        const int status = poet_pager_out(pager, pager->page_area + i, block, sizeof block, &crc);
        if (status != POET_OK) {
            return status;
        }
    }
    return POET_OK;
}

/* The kept input: all of it, or the rows that an operator reads by their indices. */
static int fill_card(poet_pager *pager, const poet_sizes *sizes, void *const *inputs, const card_operands *card)
{
    uint32_t random = 0x9e3779b9u;
    if (sizes->kept_rows == 0) {
        return fill_blocks(pager, 0, card->first_output, &random);
    }
    const uint32_t *rows = inputs[sizes->index_input];
    int status = POET_OK;
    for (uint32_t i = 0; status == POET_OK && i < sizes->input_bytes[sizes->index_input] / sizes->index_bytes; i++) {
        const uint32_t blocks = blocks_of(card->row_bytes);
        status = fill_blocks(pager, rows[i] * blocks, blocks, &random);
    }
    return status;
}

int poet_bench_operator(const poet_operator *operator, const int32_t *params, uint32_t repeats, uint8_t *ram,
                        uint32_t ram_bytes, poet_pager *pager, poet_operator_bench *result)
{
    poet_sizes sizes;
    int status = is_transfer(operator) ? POET_E_UNSUPPORTED : operator->sizes(params, &sizes);
    if (status != POET_OK) {
        return status;
    }
    const bool to_card = (sizes.kept & POET_KEPT_OUTPUTS) != 0;
    const bool from_card = (sizes.kept & POET_KEPT_INPUT) != 0;
    if ((to_card || from_card) && pager == NULL) {
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
    outputs[0] = gathers(operator->code) != 0 ? inputs[gathers(operator->code)] : outputs[0];
    card_operands card = {.pager = pager};
    if (from_card) {
        const uint32_t rows = sizes.kept_rows > 0 ? sizes.kept_rows : 1u;
        card.row_bytes = sizes.input_bytes[sizes.kept_input] / rows;
        card.first_output = rows * blocks_of(card.row_bytes);
        status = fill_card(pager, &sizes, inputs, &card);
    }
    const poet_sink sink = {&card, write_to_card, write_row_to_card};
    const poet_source source = {.context = &card,
                                .overlaps = pager != NULL && pager->device->start_read != NULL,
                                .read = read_from_card,
                                .wait = wait_for_card};
    const poet_op_args args = {
        params, operands, outputs, workspace, 0x1p-10f, to_card ? &sink : NULL, from_card ? &source : NULL};

    result->ticks = 0;
    poet_board_window(true);
    uint32_t before = poet_board_ticks();
    for (uint32_t i = 0; status == POET_OK && i < repeats; i++) {
        card.block = to_card ? pager->page_area + card.first_output : 0u;
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
        result->checksum =
            to_card ? card.checksum : poet_crc32_quick(result->checksum, outputs[i], sizes.output_bytes[i]);
    }
    return status;
}
