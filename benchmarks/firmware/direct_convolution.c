/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and their gradients computed directly, where the operators would take Winograd's algorithm. */
#include <stddef.h>

#include "convolution.h"
#include "input_gradient.h"
#include "weight_gradient.h"

static poet_conv read_directly(const int32_t *params)
{
    poet_conv conv;
    (void)poet_conv_read(params, &conv);
    conv.winograd = 0;
    return conv;
}

uint32_t direct_conv2d_workspace(const int32_t *params)
{
    const poet_conv conv = read_directly(params);
    uint32_t bytes;
    (void)poet_convolution_workspace(&conv, &bytes);
    return bytes;
}

void direct_conv2d(const int32_t *params, const float *x, const float *w, float *workspace, float *y)
{
    const poet_conv conv = read_directly(params);
    poet_convolution(&conv, 0, conv.out_channels, x, w, NULL, workspace, y);
}

uint32_t direct_conv2d_backward_input_workspace(const int32_t *params)
{
    const poet_conv conv = read_directly(params);
    uint32_t bytes;
    (void)poet_input_gradient_workspace(&conv, conv.out_channels, &bytes);
    return bytes;
}

void direct_conv2d_backward_input(const int32_t *params, const float *gy, const float *w, float *workspace, float *gx)
{
    const poet_conv conv = read_directly(params);
    poet_input_gradient(&conv, gy, w, workspace, gx);
}

uint32_t direct_conv2d_backward_weight_workspace(const int32_t *params)
{
    const poet_conv conv = read_directly(params);
    uint32_t bytes;
    (void)poet_weight_gradient_workspace(&conv, &bytes);
    return bytes;
}

void direct_conv2d_backward_weight(const int32_t *params, const float *gy, const float *x, float *workspace, float *gw)
{
    const poet_conv conv = read_directly(params);
    poet_weight_gradient(&conv, 0, conv.out_channels, gy, x, workspace, gw);
}
