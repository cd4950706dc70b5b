/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution, see convolution.h; and the same added to a sum so far. */
#include <stddef.h>

#include "../kernels/convolution.h"
#include "sum_so_far.h"

int poet_conv2d_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = poet_conv_read(params, &conv);
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

int poet_conv2d_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    poet_convolution(&conv, 0, conv.groups * conv.out_channels, args->inputs[0], args->inputs[1],
                     conv.bias ? args->inputs[2] : NULL, args->workspace, args->outputs[0]);
    return POET_OK;
}

int poet_conv2d_accumulate_sizes(const int32_t *params, poet_sizes *sizes)
{
    const int status = poet_conv2d_sizes(params, sizes);
    if (status != POET_OK || sizes->inputs != 2) { /* a bias is added with the first part of the sum */
        return POET_E_ARGUMENT;
    }
    return poet_sizes_accumulate(status, sizes);
}

int poet_conv2d_accumulate_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    poet_convolution_add(&conv, 0, conv.groups * conv.out_channels, args->inputs[0], args->inputs[1], args->workspace,
                         poet_sum_so_far(args, (int32_t)(conv.y_bytes / sizeof(float))));
    return POET_OK;
}
