/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent on an embedding's kept table, which lies by rows: the rows of the tokens that occur change, each
 * once, and the others stay as they are. The gradient of a row is the sum of gy[m] over the m with tokens[m] = row, in
 * the order of m. */
#include <string.h>

#include "../kernels/shape.h"
#include "../kernels/span.h"
#include "../kernels/stream.h"
#include "../kernels/update.h"

int poet_streamed_embedding_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_streamed_embedding_update_params *p = (const poet_streamed_embedding_update_params *)params;
    const int status = poet_sizes_read("ac,a,bc>bc", params, sizes);
    sizes->workspace_bytes = 8 * (uint32_t)p->d;
    sizes->kept = POET_KEPT_INPUT | POET_KEPT_OUTPUTS;
    sizes->kept_input = 2;
    sizes->kept_rows = (uint32_t)p->v;
    return poet_sizes_index(status, p->v, sizes);
}

static bool occurs_before(const int32_t *tokens, int32_t m)
{
    for (int32_t i = 0; i < m; i++) {
        if (tokens[i] == tokens[m]) {
            return true;
        }
    }
    return false;
}

/* Adds up the gradients of a token that occurs at m first. */
static void sum_up(const poet_streamed_embedding_update_params *p, const float *gy, const int32_t *tokens, int32_t m,
                   float *gradient)
{
    poet_clear(gradient, p->d);
    for (int32_t i = m; i < p->m; i++) {
        for (int32_t d = 0; tokens[i] == tokens[m] && d < p->d; d++) {
            gradient[d] += gy[i * p->d + d];
        }
    }
}

static int update_row(const poet_op_args *args, int32_t m, float *gradient, float *present)
{
    const poet_streamed_embedding_update_params *p = (const poet_streamed_embedding_update_params *)args->params;
    const int32_t *tokens = args->inputs[1];
    const int32_t first = tokens[m] * p->d;
    int status = poet_stream_start_read(args, 2, first, p->d, present);
    if (status != POET_OK) {
        return status;
    }
    sum_up(p, args->inputs[0], tokens, m, gradient);
    const float *weights = poet_stream_finish_read(args, 2, first, present, &status);
    if (status != POET_OK) {
        return status;
    }
    status = poet_update_descend(args->learning_rate, poet_no_rule, weights, gradient, p->d);
    if (status != POET_OK) {
        return status;
    }
    if (args->sink != NULL) {
        return args->sink->write_row(args->sink->context, 0, (uint32_t)tokens[m], present, gradient);
    }
    memcpy((float *)args->outputs[0] + first, gradient, sizeof *gradient * (size_t)p->d);
    return POET_OK;
}

int poet_streamed_embedding_update_run(const poet_op_args *args)
{
    const poet_streamed_embedding_update_params *p = (const poet_streamed_embedding_update_params *)args->params;
    const int32_t *tokens = args->inputs[1];
    float *gradient = args->workspace;
    for (int32_t m = 0; m < p->m; m++) {
        if (tokens[m] < 0 || tokens[m] >= p->v) {
            return POET_E_ARGUMENT;
        }
    }
    if (args->sink == NULL) { /* then nor is there a source */
        memcpy(args->outputs[0], args->inputs[2], sizeof *gradient * (size_t)p->v * (size_t)p->d);
    }
    for (int32_t m = 0; m < p->m; m++) {
        const int status = occurs_before(tokens, m) ? POET_OK : update_row(args, m, gradient, gradient + p->d);
        if (status != POET_OK) {
            return status;
        }
    }
    return POET_OK;
}
