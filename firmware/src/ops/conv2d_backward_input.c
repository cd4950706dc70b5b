/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a convolution by its input, see input_gradient.h. */
#include "input_gradient.h"

int poet_conv2d_backward_input_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = poet_conv_read(params, &conv);
    if (status != POET_OK) {
        return status;
    }
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {conv.y_bytes, conv.w_bytes},
        .output_bytes = {conv.x_bytes},
    };
    return poet_input_gradient_workspace(&conv, conv.out_channels, &sizes->workspace_bytes);
}

int poet_conv2d_backward_input_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    poet_input_gradient(&conv, 0, conv.groups * conv.out_channels, args->inputs[0], args->inputs[1], args->workspace,
                        args->outputs[0]);
    return POET_OK;
}
