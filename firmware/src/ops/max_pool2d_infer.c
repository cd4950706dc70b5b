/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum over windows, of any size: without the places that a way back needs. */
#include "max_of_2x2_inl.h"

int poet_max_pool2d_infer_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_pool pool;
    if (poet_pool_read(params, &pool) != POET_OK) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 1,
        .outputs = 1,
        .input_bytes = {4 * pool.x_count},
        .output_bytes = {4 * pool.y_count},
    };
    return POET_OK;
}

int poet_max_pool2d_infer_run(const poet_op_args *args)
{
    poet_pool pool;
    const int status = poet_pool_read(args->params, &pool);
    if (status != POET_OK) {
        return status;
    }
    max_of_windows(&pool, args->inputs[0], args->outputs[0], NULL);
    return POET_OK;
}
