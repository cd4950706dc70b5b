/* SPDX-License-Identifier: Apache-2.0 */
/* The generator's next step: two words, its seed and the number of the step. */
#include "../kernels/shape.h"

int poet_advance_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_advance_params *p = (const poet_advance_params *)params;
    if (p->steps < 1) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){.inputs = 1, .outputs = 1, .input_bytes = {8}, .output_bytes = {8}, .in_place = 1};
    return POET_OK;
}

int poet_advance_run(const poet_op_args *args)
{
    const poet_advance_params *p = (const poet_advance_params *)args->params;
    const uint32_t *before = args->inputs[0];
    uint32_t *after = args->outputs[0];
    after[0] = before[0];
    after[1] = before[1] + (uint32_t)p->steps;
    return POET_OK;
}
