/* SPDX-License-Identifier: Apache-2.0 */
/* A few tiny operators, so that runner tests depend on no kernel: with the real table's codes, or with such as it
 * had. */
#include <string.h>

#include "../../../../firmware/src/kernels/stream.h"
#include "poet/operator.h"

static int relu_sizes(const int32_t *params, poet_sizes *sizes)
{
    if (params[0] < 1 || params[0] > 1 << 20) {
        return POET_E_ARGUMENT;
    }
    const uint32_t bytes = 4u * (uint32_t)params[0];
    *sizes = (poet_sizes){.inputs = 1, .outputs = 1, .input_bytes = {bytes}, .output_bytes = {bytes}, .takes_over = 1u};
    return POET_OK;
}

static int relu(const poet_op_args *args)
{
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    for (int32_t i = 0; i < args->params[0]; i++) {
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
    return POET_OK;
}

/* With a workspace, which it fills: a wrong place of it would show in a neighbour. */
static int add_sizes(const int32_t *params, poet_sizes *sizes)
{
    if (params[0] < 1 || params[0] > 1 << 20) {
        return POET_E_ARGUMENT;
    }
    const uint32_t bytes = 4u * (uint32_t)params[0];
    *sizes = (poet_sizes){
        .inputs = 2, .outputs = 1, .input_bytes = {bytes, bytes}, .output_bytes = {bytes}, .workspace_bytes = bytes};
    return POET_OK;
}

static int add(const poet_op_args *args)
{
    const float *a = args->inputs[0];
    const float *b = args->inputs[1];
    float *sum = args->workspace;
    for (int32_t i = 0; i < args->params[0]; i++) {
        sum[i] = a[i] + b[i];
    }
    memcpy(args->outputs[0], sum, 4u * (size_t)args->params[0]);
    return POET_OK;
}

static int sgd_sizes(const int32_t *params, poet_sizes *sizes)
{
    const int status = add_sizes(params, sizes);
    sizes->workspace_bytes = 0;
    sizes->in_place = 1;
    return status;
}

static int sgd(const poet_op_args *args)
{
    const float *gradient = args->inputs[0];
    float *parameter = args->outputs[0];
    for (int32_t i = 0; i < args->params[0]; i++) {
        parameter[i] -= args->learning_rate * gradient[i];
    }
    return POET_OK;
}

static int nll_sizes(const int32_t *params, poet_sizes *sizes)
{
    *sizes = (poet_sizes){.inputs = 2, .outputs = 1, .output_bytes = {4}};
    if (params[0] < 1 || params[1] < 1 || params[0] > 1000 || params[1] > 1000) {
        return POET_E_ARGUMENT;
    }
    sizes->input_bytes[0] = 4u * (uint32_t)(params[0] * params[1]);
    sizes->input_bytes[1] = 4u * (uint32_t)params[0];
    sizes->index_input = 1;
    sizes->index_bytes = 4;
    sizes->index_bound = (uint32_t)params[1];
    return POET_OK;
}

/* Not the loss: the sum of the labels, which shows that they were in range. */
static int nll(const poet_op_args *args)
{
    const int32_t *target = args->inputs[1];
    float sum = 0.0f;
    for (int32_t i = 0; i < args->params[0]; i++) {
        sum += target[i] >= 0 && target[i] < args->params[1] ? 1.0f : -1000.0f;
    }
    memcpy(args->outputs[0], &sum, sizeof sum);
    return POET_OK;
}

/* One row of x by each row of w, tile by tile. */
static int streamed_linear_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_streamed_linear_params *p = (const poet_streamed_linear_params *)params;
    if (p->m != 1 || p->k < 1 || p->n < 1 || p->k > 1000 || p->n > 1000 || !poet_stream_suits(p->n, p->k, p->tile)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {4u * (uint32_t)p->k, 4u * (uint32_t)(p->n * p->k)},
        .output_bytes = {4u * (uint32_t)p->n},
        .workspace_bytes = 4u * (uint32_t)(p->tile * p->k),
        .kept = POET_KEPT_INPUT,
        .kept_input = 1,
    };
    return POET_OK;
}

static int streamed_linear(const poet_op_args *args)
{
    const poet_streamed_linear_params *p = (const poet_streamed_linear_params *)args->params;
    const float *x = args->inputs[0];
    float *y = args->outputs[0];
    poet_stream weights = poet_stream_begin(args, 1, p->n, p->k, p->tile, 1, args->workspace);
    while (poet_stream_next(&weights)) {
        for (int32_t n = 0; n < weights.count; n++) {
            float sum = 0.0f;
            for (int32_t k = 0; k < p->k; k++) {
                sum += x[k] * weights.data[n * p->k + k];
            }
            y[weights.first + n] = sum;
        }
    }
    return weights.status;
}

const poet_operator poet_operators[] = {
    {7, 1, relu_sizes, relu},
    {13, 1, add_sizes, add},
    {POET_OP_NLL_LOSS, 2, nll_sizes, nll},
    {POET_OP_SGD, 1, sgd_sizes, sgd},
    {POET_OP_ADVANCE, 1, poet_advance_sizes, poet_advance_run},
    {POET_OP_FETCH, 1, poet_fetch_sizes, poet_fetch_run},
    {POET_OP_STORE, 1, poet_store_sizes, poet_store_run},
    {POET_OP_COMMIT, 1, poet_commit_sizes, poet_commit_run},
    {POET_OP_SGD_UPDATE, 8, poet_sgd_update_sizes, poet_sgd_update_run},
    {POET_OP_STREAMED_LINEAR, 5, streamed_linear_sizes, streamed_linear},
    {POET_OP_STREAMED_EMBEDDING, 3, poet_streamed_embedding_sizes, poet_streamed_embedding_run},
    {POET_OP_STREAMED_EMBEDDING_UPDATE, 3, poet_streamed_embedding_update_sizes, poet_streamed_embedding_update_run},
};
const poet_operator_set poet_all_operators = {poet_operators, sizeof poet_operators / sizeof *poet_operators};
