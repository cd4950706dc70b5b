/* SPDX-License-Identifier: Apache-2.0 */
/* y[m] = w[tokens[m]], a row a token read from the card. */
#include <string.h>

#include "../kernels/shape.h"
#include "../kernels/stream.h"

int poet_streamed_embedding_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_streamed_embedding_params *p = (const poet_streamed_embedding_params *)params;
    const int status = poet_embedding_sizes(params, sizes);
    sizes->kept = POET_KEPT_INPUT;
    sizes->kept_input = 0;
    sizes->kept_rows = (uint32_t)p->v;
    return status;
}

int poet_streamed_embedding_run(const poet_op_args *args)
{
    const poet_streamed_embedding_params *p = (const poet_streamed_embedding_params *)args->params;
    const int32_t *tokens = args->inputs[1];
    float *y = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++) {
        if (tokens[m] < 0 || tokens[m] >= p->v) {
            return POET_E_ARGUMENT;
        }
        const int32_t first = tokens[m] * p->d;
        int status = poet_stream_start_read(args, 0, first, p->d, y);
        const float *row = status == POET_OK ? poet_stream_finish_read(args, 0, first, y, &status) : NULL;
        if (status != POET_OK) {
            return status;
        }
        if (row != y) {
            memcpy(y, row, sizeof *y * (size_t)p->d);
        }
        y += p->d;
    }
    return POET_OK;
}
