#include <stddef.h>

#include "poet/bench.h"
#include "poet/board.h"
#include "poet/crc32.h"

/* The operands that are not f32: indices, which must be below a bound made of the operator's parameters. */
typedef struct index_input {
    uint8_t op;
    uint8_t input;
    uint8_t bytes;     /* of one index */
    uint8_t factors[2]; /* parameters whose product is the bound; equal ones count once */
} index_input;

static const index_input index_inputs[] = {
    {POET_OP_MAX_POOL2D_BACKWARD, 1, 1, {4, 5}},
    {POET_OP_NLL_LOSS, 1, 4, {1, 1}},
    {POET_OP_NLL_LOSS_BACKWARD, 1, 4, {1, 1}},
};

static const index_input *find_index_input(uint8_t op, uint32_t input)
{
    for (size_t i = 0; i < sizeof index_inputs / sizeof *index_inputs; i++)
        if (index_inputs[i].op == op && index_inputs[i].input == input)
            return &index_inputs[i];
    return NULL;
}

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
    for (uint32_t i = 0; i < count; i++)
        data[i] = (float)(int32_t)(next_random(state) >> 8) * 0x1p-23f - 1.0f;
}

static void fill_indices(uint8_t *data, uint32_t bytes, const index_input *kind, const int32_t *params, uint32_t *state)
{
    uint32_t bound = (uint32_t)params[kind->factors[0]];
    if (kind->factors[1] != kind->factors[0])
        bound *= (uint32_t)params[kind->factors[1]];
    if (kind->bytes == 1u) {
        for (uint32_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)(next_random(state) % bound);
    } else {
        for (uint32_t i = 0; i < bytes / 4u; i++)
            ((uint32_t *)(void *)data)[i] = next_random(state) % bound;
    }
}

typedef struct region {
    uint8_t *next;
    uint32_t left;
} region;

static void *reserve(region *region, uint32_t bytes)
{
    if (bytes > UINT32_MAX - 7u)
        return NULL;
    bytes = (bytes + 7u) / 8u * 8u;
    if (bytes > region->left)
        return NULL;
    void *place = region->next;
    region->next += bytes;
    region->left -= bytes;
    return place;
}

/* Whether output 0 is input 1, changed in place. */
static bool updates_in_place(const poet_operator *operator)
{
    return operator->code == POET_OP_SGD;
}

int poet_bench_operator(const poet_operator *operator, const int32_t *params, uint32_t repeats, uint8_t *ram,
                        uint32_t ram_bytes, poet_operator_bench *result)
{
    poet_sizes sizes;
    int status = operator->sizes(params, &sizes);
    if (status != POET_OK)
        return status;

    region free_ram = {ram, ram_bytes};
    void *inputs[POET_MAX_INPUTS];
    void *outputs[POET_MAX_OUTPUTS];
    uint32_t random = 0x2545f491u;
    for (uint32_t i = 0; i < sizes.inputs; i++) {
        inputs[i] = reserve(&free_ram, sizes.input_bytes[i]);
        if (inputs[i] == NULL)
            return POET_E_MEMORY;
        const index_input *kind = find_index_input(operator->code, i);
        if (kind != NULL)
            fill_indices(inputs[i], sizes.input_bytes[i], kind, params, &random);
        else
            fill_floats(inputs[i], sizes.input_bytes[i] / 4u, &random);
    }
    for (uint32_t i = 0; i < sizes.outputs; i++) {
        outputs[i] = updates_in_place(operator) ? inputs[1] : reserve(&free_ram, sizes.output_bytes[i]);
        if (outputs[i] == NULL)
            return POET_E_MEMORY;
    }
    void *workspace = reserve(&free_ram, sizes.workspace_bytes);
    if (workspace == NULL)
        return POET_E_MEMORY;

    const void *operands[POET_MAX_INPUTS];
    for (uint32_t i = 0; i < sizes.inputs; i++)
        operands[i] = inputs[i];
    const poet_op_args args = {params, operands, outputs, workspace, 0x1p-10f};

    result->ticks = 0;
    poet_board_window(true);
    uint32_t before = poet_board_ticks();
    for (uint32_t i = 0; status == POET_OK && i < repeats; i++) {
        status = operator->run(&args);
        uint32_t now = poet_board_ticks();
        result->ticks += now - before;
        before = now;
    }
    poet_board_window(false);

    result->workspace_bytes = sizes.workspace_bytes;
    result->output_bytes = 0;
    result->checksum = 0;
    for (uint32_t i = 0; i < sizes.outputs; i++) {
        result->output_bytes += sizes.output_bytes[i];
        result->checksum = poet_crc32(result->checksum, outputs[i], sizes.output_bytes[i]);
    }
    return status;
}
