/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a convolution by its input, see input_gradient.h; and the same added to a sum so far. */
#include "../kernels/input_gradient.h"
#include "sum_so_far.h"

int poet_conv2d_backward_input_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    return poet_input_gradient_sizes(poet_conv_read(params, &conv), &conv, sizes);
}

int poet_conv2d_backward_input_accumulate_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_accumulate(poet_conv2d_backward_input_sizes(params, sizes), sizes);
}

int poet_conv2d_backward_input_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    poet_input_gradient(&conv, args->inputs[0], args->inputs[1], args->workspace, args->outputs[0]);
    return POET_OK;
}

int poet_conv2d_backward_input_accumulate_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    float *gx = poet_sum_so_far(args, (int32_t)(conv.x_bytes / sizeof(float)));
    poet_input_gradient_add(&conv, 0, conv.groups * conv.out_channels, args->inputs[0], args->inputs[1],
                            args->workspace, gx);
    return POET_OK;
}
