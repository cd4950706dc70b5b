#include <stddef.h>

#include "poet/bench.h"
#include "poet/board.h"
#include "poet/crc32.h"

/* The inputs that are labels: i32 from 0 up to, and without, one of the operator's parameters. */
typedef struct label_input {
    uint8_t op;
    uint8_t input;
    uint8_t bound; /* index of that parameter */
} label_input;

static const label_input label_inputs[] = {
    {POET_OP_NLL_LOSS, 1, 1},
    {POET_OP_NLL_LOSS_BACKWARD, 1, 1},
};

static const label_input *find_label_input(uint8_t op, uint32_t input)
{
    for (size_t i = 0; i < sizeof label_inputs / sizeof *label_inputs; i++)
        if (label_inputs[i].op == op && label_inputs[i].input == input)
            return &label_inputs[i];
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

static void fill_labels(uint32_t *data, uint32_t count, uint32_t bound, uint32_t *state)
{
    for (uint32_t i = 0; i < count; i++)
        data[i] = next_random(state) % bound;
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

/* Which pooling indices are valid depends on their window's place: they come from the forward operator, which has the
 * same parameters, run on the buffers that the benchmark has anyway. */
static int make_pooling_indices(const int32_t *params, void *const *inputs, void *x, uint32_t x_bytes, uint32_t *random)
{
    const poet_operator *forward = poet_operator_find(POET_OP_MAX_POOL2D);
    if (forward == NULL)
        return POET_E_UNSUPPORTED;
    fill_floats(x, x_bytes / 4u, random);
    const void *operands[] = {x};
    const poet_op_args args = {params, operands, inputs, NULL, 0.0f};
    return forward->run(&args);
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
        const label_input *label = find_label_input(operator->code, i);
        if (label != NULL)
            fill_labels(inputs[i], sizes.input_bytes[i] / 4u, (uint32_t)params[label->bound], &random);
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

    if (operator->code == POET_OP_MAX_POOL2D_BACKWARD)
        status = make_pooling_indices(params, inputs, outputs[0], sizes.output_bytes[0], &random);
    if (status != POET_OK)
        return status;

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
