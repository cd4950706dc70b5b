/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream remembers, in place: of each row the oldest elements go, and new ones come behind the others. */
#include "../kernels/shape.h"

int poet_shift_sizes(const int32_t *params, poet_sizes *sizes)
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
        .input_bytes = {4 * new, 4 * (kept + new)},
        .output_bytes = {4 * (kept + new)},
    };
    return POET_OK;
}

int poet_shift_run(const poet_op_args *args)
{
    const poet_shift_params *p = (const poet_shift_params *)args->params;
    const uint32_t *x = args->inputs[0];
    const uint32_t *before = args->inputs[1];
    uint32_t *row = args->outputs[0];
    const size_t new = (size_t)p->count;
    const size_t kept = (size_t)p->kept;
    for (int32_t i = 0; i < p->rows; i++, row += kept + new, before += kept + new, x += new) {
        for (size_t k = 0; k < kept; k++) {
            row[k] = before[k + new];
        }
        for (size_t k = 0; k < new; k++) {
            row[kept + k] = x[k];
        }
    }
    return POET_OK;
}
