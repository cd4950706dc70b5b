/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution and the ReLU after it, where nothing else reads the convolution: frozen layers need it for no way
 * back. Its results are clipped where they lie, so that they are in RAM once. */
#include "../kernels/steps.h"

int poet_conv2d_relu_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_conv2d_sizes(params, sizes);
}

int poet_conv2d_relu_run(const poet_op_args *args)
{
    poet_sizes sizes;
    int status = poet_conv2d_sizes(args->params, &sizes);
    if (status == POET_OK) {
        status = poet_conv2d_run(args);
    }
    if (status != POET_OK) {
        return status;
    }
    float *const y = args->outputs[0];
    poet_relu_step.run(y, y, y, NULL, (int32_t)(sizes.output_bytes[0] / sizeof(float)));
    return POET_OK;
}
