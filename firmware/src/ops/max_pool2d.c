/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum over windows. The second output is the row-major place of the maximum inside its window: one byte an
 * element, so a window has at most 256 places. */
#include "max_of_2x2_inl.h"

int poet_max_pool2d_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_pool pool;
    if (poet_pool_read(params, &pool) != POET_OK || poet_count(pool.windows.r, pool.windows.s, 1, 1) > 256) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 1,
        .outputs = 2,
        .input_bytes = {4 * pool.x_count},
        .output_bytes = {4 * pool.y_count, pool.y_count},
    };
    return POET_OK;
}

int poet_max_pool2d_run(const poet_op_args *args)
{
    poet_pool pool;
    const int status = poet_pool_read(args->params, &pool);
    if (status != POET_OK) {
        return status;
    }
    max_of_windows(&pool, args->inputs[0], args->outputs[0], args->outputs[1]);
    return POET_OK;
}
