/* SPDX-License-Identifier: Apache-2.0 */
/* A step of the optimiser on the kept weights and bias of a linear layer, some rows at a time. The present weights are
 * a value, or read from the card as well. The gradient of a row of weights is gw[n,k] = sum over m of gy[m,n] * x[m,k],
 * that of the bias gb[n] = sum over m of gy[m,n], each one running sum as in `matmul` and `sum_rows`. */
#include <stddef.h>

#include "../kernels/product.h"
#include "../kernels/shape.h"
#include "../kernels/stream.h"
#include "../kernels/update.h"

static const poet_descent *descent_of(const int32_t *params)
{
    return (const poet_descent *)&((const poet_linear_update_params *)params)->momentum_nano;
}

static int sizes_of(const int32_t *params, bool streamed, poet_sizes *sizes)
{
    const poet_linear_update_params *p = (const poet_linear_update_params *)params;
    const int status = poet_sizes_read("ac,ab,cb,d?c>cb,d?c", params, sizes);
    if (status != POET_OK || p->tile < 1 || p->tile > p->n || (streamed && !poet_stream_suits(p->n, p->k, p->tile))) {
        return POET_E_ARGUMENT;
    }
    sizes->workspace_bytes = POET_UPDATE_BUFFER_BYTES + 4 * (uint32_t)p->tile * (uint32_t)p->k;
    sizes->kept = POET_KEPT_OUTPUTS;
    if (streamed) {
        sizes->kept |= POET_KEPT_INPUT;
        sizes->kept_input = 2;
        sizes->workspace_bytes += 4 * (uint32_t)(p->tile * p->k);
    }
    return poet_update_add_states(POET_OK, descent_of(params), p->n, p->tile, sizes);
}

int poet_linear_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    return sizes_of(params, false, sizes);
}

int poet_streamed_linear_update_sizes(const int32_t *params, poet_sizes *sizes)
{
    return sizes_of(params, true, sizes);
}

static void sum_columns(const float *gy, int32_t m, int32_t n, int32_t columns, float *sums)
{
    for (int32_t j = 0; j < columns; j++) {
        sums[j] = gy[j];
    }
    for (int32_t i = 1; i < m; i++) {
        gy += n;
        for (int32_t j = 0; j < columns; j++) {
            sums[j] += gy[j];
        }
    }
}

/* As in conv2d_update.c. */
static int update_weights(const poet_op_args *args, float *present, float *gradient, float *states,
                          const poet_descent *descent)
{
    const poet_linear_update_params *p = (const poet_linear_update_params *)args->params;
    const float *gy = args->inputs[0];
    poet_update update = poet_update_begin(args, descent, 2, p->bias == 1 ? 2u : 1u, 0, present != NULL, states);
    for (int32_t n = 0; n < p->n; n += p->tile) {
        const int32_t rows = p->n - n < p->tile ? p->n - n : p->tile;
        const poet_product product = {
            .m = rows, .k = p->m, .n = p->k, .a_m = 1, .a_k = p->n, .c_k = p->k, .c_n = 1, .y_m = p->k};
        int status = POET_OK;
        if (present != NULL) {
            status = poet_stream_start_read(args, 2, n * p->k, rows * p->k, present);
        }
        if (status == POET_OK) {
            poet_product_compute(&product, gy + n, args->inputs[1], gradient);
        }
        if (status == POET_OK && present != NULL) {
            update.weights = poet_stream_finish_read(args, 2, n * p->k, present, &status);
        }
        if (status != POET_OK) {
            return status;
        }
        poet_update_tile(&update, gradient, rows * p->k, n + rows == p->n);
    }
    return poet_update_end(&update);
}

/* Its stack is not there while gradients of weights are made. */
__attribute__((noinline)) static int update_bias(const poet_op_args *args, float *gradient, float *states,
                                                 const poet_descent *descent)
{
    const poet_linear_update_params *p = (const poet_linear_update_params *)args->params;
    const int32_t columns_at_once = p->tile * p->k;
    poet_update update = poet_update_begin(args, descent, 2, 2, 1, false, states);
    for (int32_t n = 0; n < p->n; n += columns_at_once) {
        const int32_t columns = p->n - n < columns_at_once ? p->n - n : columns_at_once;
        sum_columns((const float *)args->inputs[0] + n, p->m, p->n, columns, gradient);
        poet_update_tile(&update, gradient, columns, n + columns == p->n);
    }
    return poet_update_end(&update);
}

static int run(const poet_op_args *args, bool streamed)
{
    const poet_linear_update_params *p = (const poet_linear_update_params *)args->params;
    const poet_descent *descent = descent_of(args->params);
    float *gradient = (float *)args->workspace + POET_UPDATE_BUFFER_BYTES / sizeof(float);
    float *states = gradient + p->tile * p->k;
    float *present = states + poet_update_state_bytes(descent, 4u * (uint32_t)(p->tile * p->k)) / sizeof(float);
    const int status = update_weights(args, streamed ? present : NULL, gradient, states, descent);
    return status != POET_OK || !p->bias ? status : update_bias(args, gradient, states, descent);
}

int poet_linear_update_run(const poet_op_args *args)
{
    return run(args, false);
}

int poet_streamed_linear_update_run(const poet_op_args *args)
{
    return run(args, true);
}
