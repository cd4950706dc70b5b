/* SPDX-License-Identifier: Apache-2.0 */
/* A group of elementwise operators as data: all its steps over a block of elements, then over the next block.
 *
 * A step is a word, code | y << 8 | a << 16 | b << 24, and its numbers. A place is one of 8 registers, each a block in
 * the workspace, an input (8 to 19) or an output (20 to 23); b is a where a step has one operand. An input of i16 is
 * read by steps that widen it alone. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"
#include "../kernels/steps.h"

#define BLOCK 64
#define REGISTERS 8
#define INPUT REGISTERS
#define OUTPUT (INPUT + POET_MAX_INPUTS)
#define OUTPUTS 4
#define PLACES (OUTPUT + OUTPUTS)
#define MOST_WORDS (POET_MAX_PARAMS - 2)
#define BIT(place) (UINT32_C(1) << (place))
#define BITS(first, count) ((BIT(count) - 1u) << (first))

typedef struct step_word {
    uint32_t code, y, a, b;
} step_word;

static inline step_word decoded(int32_t word)
{
    const uint32_t bits = (uint32_t)word;
    return (step_word){bits & 255u, bits >> 8 & 255u, bits >> 16 & 255u, bits >> 24};
}

/* NULL where the program has none. */
static const poet_step *step_of(uint32_t code)
{
    const poet_step *const *named = code < POET_STEP_CODES ? poet_steps_named[code] : NULL;
    return named == NULL ? NULL : *named;
}

/* What steps have done so far; a bit a place. */
typedef struct group {
    uint32_t read, written;
    uint32_t small;  /* inputs that are spread */
    uint32_t narrow; /* inputs of i16 */
    uint32_t sums;   /* outputs of one element */
    uint32_t late;   /* read after the first output was written */
    int32_t counts[POET_MAX_INPUTS];
} group;

/* Reads a small input; false if it makes no sense. */
static bool spreads(group *group, const step_word *step, const int32_t *numbers, int32_t size)
{
    if ((BIT(step->a) & BITS(INPUT, POET_MAX_INPUTS)) == 0 || poet_count(numbers[0], numbers[1], 1, 1) == 0 ||
        (numbers[1] == size && size > 1) || size % (numbers[0] * numbers[1]) != 0) {
        return false;
    }
    int32_t *const count = &group->counts[step->a - INPUT];
    const bool fits = (group->read & BIT(step->a)) == 0 || *count == numbers[1];
    *count = numbers[1];
    group->small |= BIT(step->a);
    return fits;
}

/* Reads an input of i16; false if it is none, or was read otherwise. */
static bool widens(group *group, uint32_t input)
{
    const bool fits = (input & BITS(INPUT, POET_MAX_INPUTS) & ~(group->read & ~group->narrow)) != 0;
    group->narrow |= input;
    return fits;
}

/* Takes one more step; false if it makes no sense. */
static bool takes(group *group, const poet_step *kind, const step_word *step, const int32_t *numbers, int32_t size)
{
    const uint32_t y = BIT(step->y);
    const uint32_t from = BIT(step->a) | BIT(step->b) | (kind->reads_y ? y : 0u);
    const uint32_t odd = group->small | group->narrow;
    const uint32_t whole = (BITS(INPUT, POET_MAX_INPUTS) & ~odd) | (group->written & ~group->sums);
    const bool sums = step->code == POET_STEP_SUM;
    const bool reads = step->code == POET_STEP_SPREAD  ? spreads(group, step, numbers, size)
                       : step->code == POET_STEP_WIDEN ? widens(group, from)
                                                       : (from & ~whole) == 0;
    const bool writes =
        sums ? step->y >= OUTPUT && (group->written & y) == 0 : (y & (BITS(INPUT, POET_MAX_INPUTS) | group->sums)) == 0;
    group->sums |= sums ? y : 0u;
    group->late |= (group->written & BIT(OUTPUT)) != 0 ? from : 0u;
    group->read |= from;
    group->written |= y;
    return reads && writes && (kind->operands > 1 || step->a == step->b);
}

/* All steps; false if one makes no sense. */
static bool takes_all(group *group, const int32_t *word, const int32_t *end, int32_t size)
{
    while (word < end) {
        const step_word step = decoded(*word++);
        const poet_step *kind = step_of(step.code);
        if (kind == NULL || step.y >= PLACES || step.a >= PLACES || step.b >= PLACES || end - word < kind->numbers ||
            !takes(group, kind, &step, word, size)) {
            return false;
        }
        word += kind->numbers;
    }
    return true;
}

/* How many bits are set, the lowest first and none left out; else more than there are. */
static uint32_t in_a_row(uint32_t bits)
{
    uint32_t count = 0;
    for (; (bits & 1u) != 0; bits >>= 1) {
        count++;
    }
    return bits == 0 ? count : PLACES;
}

/* Elements of a register. */
static int32_t block_of(int32_t size)
{
    return size < BLOCK ? size : BLOCK;
}

int poet_pointwise_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_pointwise_params *p = (const poet_pointwise_params *)params;
    const uint32_t bytes = 4 * poet_count(p->size, 1, 1, 1);
    group group = {0};
    if (bytes == 0 || p->words < 1 || p->words > MOST_WORDS ||
        !takes_all(&group, params + 2, params + 2 + p->words, p->size)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){.inputs = in_a_row((group.read & BITS(INPUT, POET_MAX_INPUTS)) >> INPUT),
                          .outputs = in_a_row(group.written >> OUTPUT)};
    if (sizes->inputs > POET_MAX_INPUTS || sizes->outputs < 1 || sizes->outputs > OUTPUTS) {
        return POET_E_ARGUMENT;
    }
    for (uint32_t i = 0; i < sizes->inputs; i++) {
        const bool small = (group.small & BIT(INPUT + i)) != 0, narrow = (group.narrow & BIT(INPUT + i)) != 0;
        const bool stays = small || narrow || (group.sums & BIT(OUTPUT)) != 0 || (group.late & BIT(INPUT + i)) != 0;
        sizes->input_bytes[i] = small ? 4 * (uint32_t)group.counts[i] : narrow ? bytes / 2 : bytes;
        sizes->takes_over |= stays ? 0 : BIT(i);
    }
    for (uint32_t i = 0; i < sizes->outputs; i++) {
        sizes->output_bytes[i] = (group.sums & BIT(OUTPUT + i)) != 0 ? 4u : bytes;
    }
    for (uint32_t i = 0; i < REGISTERS; i++) {
        const uint32_t bytes_so_far = 4u * (uint32_t)block_of(p->size) * (i + 1u);
        sizes->workspace_bytes = (group.written & BIT(i)) != 0 ? bytes_so_far : sizes->workspace_bytes;
    }
    return POET_OK;
}

/* y[i] = x[(at + i) / inner % count]. */
static void spread(float *y, const float *x, const int32_t *numbers, int32_t at, int32_t n)
{
    const int32_t inner = numbers[0], count = numbers[1];
    int32_t place = at / inner % count;
    int32_t run = inner == 1 ? count - place : inner - at % inner;
    while (n > 0) {
        run = run < n ? run : n;
        if (inner == 1) {
            poet_copy_step.run(y, x + place, x + place, numbers, run);
            place = -1;
        } else {
            const float all = x[place];
            for (int32_t i = 0; i < run; i++) {
                y[i] = all;
            }
        }
        y += run;
        n -= run;
        run = inner == 1 ? count : inner;
        place = place + 1 < count ? place + 1 : 0;
    }
}

static void sum(float *y, const float *x, const int32_t *numbers, int32_t n, bool begins, bool ends)
{
    float total = begins ? 0.0f : *y;
    for (int32_t i = 0; i < n; i++) {
        total += x[i];
    }
    *y = ends ? total / poet_from_bits(numbers[0]) : total;
}

/* A block that begins with element `at`. */
static void compute(const poet_pointwise_params *p, float *const *places, int32_t at, int32_t n)
{
    const int32_t *word = (const int32_t *)(p + 1), *const end = word + p->words;
    while (word < end) {
        const step_word step = decoded(*word++);
        const poet_step *kind = *poet_steps_named[step.code];
        if (kind->run != NULL) {
            kind->run(places[step.y], places[step.a], places[step.b], word, n);
        } else if (step.code == POET_STEP_SPREAD) {
            spread(places[step.y], places[step.a], word, at, n);
        } else {
            sum(places[step.y], places[step.a], word, n, at == 0, at + n == p->size);
        }
        word += kind->numbers;
    }
}

/* Where steps read and write. */
typedef struct pointers {
    float *places[PLACES];
    uint8_t going[POET_MAX_INPUTS + OUTPUTS]; /* places that go on from block to block */
    uint32_t going_count;
    uint32_t narrow; /* of i16, a bit a place */
    bool by_blocks;
} pointers;

static void find(const poet_op_args *args, pointers *found)
{
    const poet_pointwise_params *p = (const poet_pointwise_params *)args->params;
    const int32_t *word = (const int32_t *)(p + 1), *const end = word + p->words;
    const uint32_t of_register = (uint32_t)block_of(p->size);
    uint32_t known = 0;
    found->going_count = 0;
    found->narrow = 0;
    while (word < end) {
        const step_word step = decoded(*word++);
        const uint32_t staying =
            step.code == POET_STEP_SPREAD ? step.a : (step.code == POET_STEP_SUM ? step.y : (uint32_t)PLACES);
        const uint32_t of_step[] = {step.a, step.b, step.y};
        found->narrow |= step.code == POET_STEP_WIDEN ? BIT(step.a) : 0;
        for (uint32_t i = 0; i < 3; i++) {
            const uint32_t place = of_step[i];
            if ((known & BIT(place)) == 0) {
                known |= BIT(place);
                found->places[place] = place < INPUT    ? (float *)args->workspace + place * of_register
                                       : place < OUTPUT ? (float *)(uintptr_t)args->inputs[place - INPUT]
                                                        : args->outputs[place - OUTPUT];
                if (place >= INPUT && place != staying) {
                    found->going[found->going_count++] = (uint8_t)place;
                }
            }
        }
        word += (*poet_steps_named[step.code])->numbers;
    }
    found->by_blocks = (known & BITS(0, REGISTERS)) != 0;
}

int poet_pointwise_run(const poet_op_args *args)
{
    const poet_pointwise_params *p = (const poet_pointwise_params *)args->params;
    const step_word first = decoded(args->params[2]);
    const poet_step *kind = *poet_steps_named[first.code];
    if (kind->run != NULL && p->words == 1 + kind->numbers) { /* so that a benchmark takes as long as the step's row */
        const void *const *inputs = args->inputs;
        kind->run(args->outputs[0], inputs[first.a - INPUT], inputs[first.b - INPUT], args->params + 3, p->size);
        return POET_OK;
    }
    pointers found;
    find(args, &found);
    const int32_t block = found.by_blocks ? block_of(p->size) : p->size;
    for (int32_t at = 0; at < p->size; at += block) {
        const int32_t left = p->size - at;
        compute(p, found.places, at, left < block ? left : block);
        for (uint32_t i = 0; i < found.going_count && left > block; i++) { /* blocks but the last are even */
            const uint32_t place = found.going[i];
            found.places[place] += (found.narrow & BIT(place)) != 0 ? block / 2 : block;
        }
    }
    return POET_OK;
}
