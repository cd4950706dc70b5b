/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream remembers, in place: of each row the oldest elements go, and new ones come behind the others. */
#include "../kernels/shape.h"

enum { MANY = 64 }; /* elements of a row that are worth a call */

static int sizes_of(const int32_t *params, uint32_t element, poet_sizes *sizes)
{
    const poet_shift_params *p = (const poet_shift_params *)params;
    const uint32_t new = poet_count(p->rows, p->count, 1, 1);
    const uint32_t kept = poet_count(p->rows, p->kept, 1, 1);
    if (new == 0 || kept == 0) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {element * new, element * (kept + new)},
        .output_bytes = {element * (kept + new)},
    };
    return POET_OK;
}

int poet_shift_sizes(const int32_t *params, poet_sizes *sizes)
{
    return sizes_of(params, 4, sizes);
}

int poet_shift_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    return sizes_of(params, 1, sizes);
}

/* To where they are already, or to lower places: four are read before one is written. */
static uint32_t *move(uint32_t *to, const uint32_t *from, int32_t count)
{
    const uint32_t *const end = from + count, *const fours = from + (count & ~3);
    for (; from < fours; from += 4, to += 4) {
        const uint32_t a = from[0], b = from[1], c = from[2], d = from[3];
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    }
    while (from < end) {
        *to++ = *from++;
    }
    return to;
}

int poet_shift_run(const poet_op_args *args)
{
    const poet_shift_params *p = (const poet_shift_params *)args->params;
    const uint32_t *x = args->inputs[0];
    const uint32_t *before = args->inputs[1];
    uint32_t *row = args->outputs[0];
    const size_t new = (size_t)p->count;
    const size_t kept = (size_t)p->kept;
    for (int32_t i = 0; i < p->rows; i++, before += kept + new, x += new) {
        if (kept + new >= MANY) {
            row = move(row, before + new, p->kept);
            row = move(row, x, p->count);
            continue;
        }
        for (size_t k = 0; k < kept; k++) {
            *row++ = before[k + new];
        }
        for (size_t k = 0; k < new; k++) {
            *row++ = x[k];
        }
    }
    return POET_OK;
}

int poet_shift_s8_run(const poet_op_args *args)
{
    const poet_shift_params *p = (const poet_shift_params *)args->params;
    const int8_t *x = args->inputs[0];
    const int8_t *before = args->inputs[1];
    int8_t *row = args->outputs[0];
    for (int32_t i = 0; i < p->rows; i++) {
        before += p->count;
        for (int32_t k = 0; k < p->kept; k++) {
            *row++ = *before++;
        }
        for (int32_t k = 0; k < p->count; k++) {
            *row++ = *x++;
        }
    }
    return POET_OK;
}
