/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a convolution by its weights and its bias, see weight_gradient.h. */
#include "../kernels/weight_gradient.h"

int poet_conv2d_backward_weight_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = poet_conv_read(params, &conv);
    if (status != POET_OK) {
        return status;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = conv.bias ? 2 : 1,
        .input_bytes = {conv.y_bytes, conv.x_bytes},
        .output_bytes = {conv.w_bytes, conv.bias ? conv.b_bytes : 0},
    };
    return poet_weight_gradient_workspace(&conv, &sizes->workspace_bytes);
}

int poet_conv2d_backward_weight_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const int32_t out_channels = conv.groups * conv.out_channels;
    const float *gy = args->inputs[0];
    poet_weight_gradient(&conv, 0, out_channels, gy, args->inputs[1], args->workspace, args->outputs[0]);
    if (conv.bias) {
        float *gb = args->outputs[1];
        for (int32_t k = 0; k < out_channels; k++) {
            gb[k] = poet_bias_gradient(&conv, k, gy, 0.0f);
        }
    }
    return POET_OK;
}
