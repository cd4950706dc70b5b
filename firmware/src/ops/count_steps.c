/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps done, in place: a u32. The greatest that it counts to stays. */
#include "../kernels/shape.h"

int poet_count_steps_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_count_steps_params *p = (const poet_count_steps_params *)params;
    if (p->steps < 1) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){.inputs = 1, .outputs = 1, .input_bytes = {4}, .output_bytes = {4}, .in_place = 1};
    return POET_OK;
}

int poet_count_steps_run(const poet_op_args *args)
{
    const poet_count_steps_params *p = (const poet_count_steps_params *)args->params;
    const uint32_t *before = args->inputs[0];
    uint32_t *after = args->outputs[0];
    const uint32_t room = INT32_MAX - (before[0] < INT32_MAX ? before[0] : INT32_MAX);
    after[0] = before[0] + ((uint32_t)p->steps < room ? (uint32_t)p->steps : room);
    return POET_OK;
}
