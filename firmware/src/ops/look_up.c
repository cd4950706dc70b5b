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

int poet_look_up_run(const poet_op_args *args)
{
    const uint8_t *x = args->inputs[0], *const end = x + args->params[0], *const ones = x + args->params[0] % 4;
    const word *const table = args->workspace;
    word *y = args->outputs[0];
    poet_copy(args->workspace, args->inputs[1], TABLE);
    for (; x < ones; x++) {
        *y++ = table[*x];
    }
    for (; x < end; x += 4, y += 4) {
        const word a = table[x[0]], b = table[x[1]], c = table[x[2]], d = table[x[3]];
        y[0] = a, y[1] = b, y[2] = c, y[3] = d;
    }
    return POET_OK;
}
