/* SPDX-License-Identifier: Apache-2.0 */
/* Any function of one byte, as of a picture's: y = table[x], from a copy of the table in RAM. */
#include "../kernels/shape.h"
#include "../kernels/span.h"
#include "poet/operator.h"

enum { TABLE = 256 };

typedef uint32_t __attribute__((may_alias)) word;

int poet_look_up_sizes(const int32_t *params, poet_sizes *sizes)
{
    const uint32_t size = poet_count(params[0], 1, 1, 1);
    *sizes = (poet_sizes){.inputs = 2,
                          .outputs = 1,
                          .input_bytes = {size, 4 * TABLE},
                          .output_bytes = {4 * size},
                          .workspace_bytes = 4 * TABLE};
    return size != 0 ? POET_OK : POET_E_ARGUMENT;
}

static word *look_up(const word *table, const uint8_t *x, int32_t count, word *y)
{
    const uint8_t *const end = x + count, *const ones = x + count % 4;
    for (; x < ones; x++) {
        *y++ = table[*x];
    }
    for (; x < end; x += 4, y += 4) {
        const word a = table[x[0]], b = table[x[1]], c = table[x[2]], d = table[x[3]];
        y[0] = a, y[1] = b, y[2] = c, y[3] = d;
    }
    return y;
}

int poet_look_up_run(const poet_op_args *args)
{
    poet_copy(args->workspace, args->inputs[1], TABLE);
    (void)look_up(args->workspace, args->inputs[0], args->params[0], args->outputs[0]);
    return POET_OK;
}

int poet_look_up_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_look_up_rows_params *p = (const poet_look_up_rows_params *)params;
    const uint32_t x = poet_count(p->c, p->h, p->w, 1), y = poet_count(p->c, p->rows, p->w, 1);
    *sizes = (poet_sizes){.inputs = 2,
                          .outputs = 1,
                          .input_bytes = {x, 4 * TABLE},
                          .output_bytes = {4 * y},
                          .workspace_bytes = 4 * TABLE};
    return x != 0 && y != 0 && p->top >= 0 && p->top <= p->h - p->rows ? POET_OK : POET_E_ARGUMENT;
}

int poet_look_up_rows_run(const poet_op_args *args)
{
    const poet_look_up_rows_params *p = (const poet_look_up_rows_params *)args->params;
    const uint8_t *x = (const uint8_t *)args->inputs[0] + p->top * p->w;
    word *y = args->outputs[0];
    poet_copy(args->workspace, args->inputs[1], TABLE);
    for (int32_t c = 0; c < p->c; c++, x += p->h * p->w) {
        y = look_up(args->workspace, x, p->rows * p->w, y);
    }
    return POET_OK;
}
