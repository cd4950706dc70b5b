/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent on an embedding's kept table, some rows at a time. The gradient of a row is the sum of gy[m] over
 * the m with tokens[m] = row, in the order of m. All rows go from the home that counts to the other one. */
#include "shape.h"
#include "span.h"
#include "stream.h"
#include "update.h"

int poet_streamed_embedding_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_streamed_embedding_update_params *p = (const poet_streamed_embedding_update_params *)params;
    poet_sizes table;
    const int status = poet_embedding_sizes(params, &table);
    if (status != POET_OK || !poet_stream_suits(p->v, p->d, p->tile)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 3,
        .outputs = 1,
        .input_bytes = {table.output_bytes[0], table.input_bytes[1], table.input_bytes[0]},
        .output_bytes = {table.input_bytes[0]},
        .workspace_bytes = POET_UPDATE_BUFFER_BYTES + 8 * (uint32_t)(p->tile * p->d),
        .kept = POET_KEPT_INPUT | POET_KEPT_OUTPUTS,
        .kept_input = 2,
        .index_input = 1,
        .index_bytes = table.index_bytes,
        .index_bound = table.index_bound,
    };
    return POET_OK;
}

static void sum_rows(const poet_streamed_embedding_update_params *p, const float *gy, const int32_t *tokens,
                     int32_t first, int32_t count, float *gradient)
{
    poet_clear(gradient, count * p->d);
    for (int32_t m = 0; m < p->m; m++) {
        if (tokens[m] < first || tokens[m] >= first + count) {
            continue;
        }
        float *row = gradient + (tokens[m] - first) * p->d;
        for (int32_t d = 0; d < p->d; d++) {
            row[d] += gy[m * p->d + d];
        }
    }
}

int poet_streamed_embedding_update_run(const poet_op_args *args)
{
    const poet_streamed_embedding_update_params *p = (const poet_streamed_embedding_update_params *)args->params;
    const int32_t *tokens = args->inputs[1];
    float *gradient = (float *)args->workspace + POET_UPDATE_BUFFER_BYTES / sizeof(float);
    float *present = gradient + p->tile * p->d;
    for (int32_t m = 0; m < p->m; m++) {
        if (tokens[m] < 0 || tokens[m] >= p->v) {
            return POET_E_ARGUMENT;
        }
    }
    poet_update update = poet_update_begin(args, 0, args->inputs[2]);
    for (int32_t first = 0; first < p->v; first += p->tile) {
        const int32_t count = p->v - first < p->tile ? p->v - first : p->tile;
        int status = poet_stream_start_read(args, 2, first * p->d, count * p->d, present);
        if (status == POET_OK) {
            sum_rows(p, args->inputs[0], tokens, first, count, gradient);
            update.weights = poet_stream_finish_read(args, 2, first * p->d, present, &status);
        }
        if (status != POET_OK) {
            return status;
        }
        poet_update_tile(&update, gradient, count * p->d);
    }
    return poet_update_end(&update);
}
