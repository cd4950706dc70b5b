/* SPDX-License-Identifier: Apache-2.0 */
/* A band of a convolution, and of its gradients: some rows of y, of a plane that is computed band by band. Bands from
 * top to bottom give the bits of the whole, where that is computed directly (docs/SPEC.md, section 1). */
#include <stddef.h>

#include "../kernels/convolution.h"
#include "../kernels/weight_gradient.h"
#include "sum_so_far.h"

int poet_conv2d_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = poet_conv_read_rows(params, &conv);
    if (status != POET_OK) {
        return status;
    }
    *sizes = (poet_sizes){
        .inputs = conv.bias ? 3 : 2,
        .outputs = 1,
        .input_bytes = {conv.x_bytes, conv.w_bytes, conv.bias ? conv.b_bytes : 0},
        .output_bytes = {conv.y_bytes},
    };
    return poet_convolution_workspace(&conv, &sizes->workspace_bytes);
}

int poet_conv2d_rows_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read_rows(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    poet_convolution(&conv, 0, conv.out_channels, args->inputs[0], args->inputs[1], conv.bias ? args->inputs[2] : NULL,
                     args->workspace, args->outputs[0]);
    return POET_OK;
}

int poet_conv2d_backward_weight_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = poet_conv_read_rows(params, &conv);
    if (status != POET_OK) {
        return status;
    }
    *sizes = (poet_sizes){
        .inputs = conv.bias ? 4 : 3,
        .outputs = conv.bias ? 2 : 1,
        .input_bytes = {conv.y_bytes, conv.x_bytes, conv.w_bytes, conv.bias ? conv.b_bytes : 0},
        .output_bytes = {conv.w_bytes, conv.bias ? conv.b_bytes : 0},
    };
    return poet_weight_gradient_workspace(&conv, &sizes->workspace_bytes);
}

int poet_conv2d_backward_weight_rows_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read_rows(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const float *gy = args->inputs[0];
    float *gw = poet_sum_so_far(args, conv.out_channels * conv.taps);
    conv.adds = true;
    poet_weight_gradient(&conv, 0, conv.out_channels, gy, args->inputs[1], args->workspace, gw);
    for (int32_t k = 0; conv.bias && k < conv.out_channels; k++) {
        const float *const so_far = args->inputs[POET_SUM_INPUT + 1];
        ((float *)args->outputs[1])[k] = poet_bias_gradient(&conv, k, gy, so_far[k]);
    }
    return POET_OK;
}
