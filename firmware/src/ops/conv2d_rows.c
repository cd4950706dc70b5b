/* SPDX-License-Identifier: Apache-2.0 */
/* A band of a convolution, and of its gradients: some rows of y, of a plane that is computed band by band. Bands from
 * top to bottom give the bits of the whole, where that is computed directly (docs/SPEC.md, section 1). */
#include <stddef.h>

#include "../kernels/convolution.h"
#include "../kernels/input_gradient.h"
#include "../kernels/weight_gradient.h"
#include "sum_so_far.h"

int poet_conv2d_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = poet_conv_read_rows(params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const poet_conv2d_rows_params *p = (const poet_conv2d_rows_params *)params;
    if (p->first < 0 || p->filters < 1 || p->filters > p->k - p->first) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = conv.bias ? 3 : 2,
        .outputs = 1,
        .input_bytes = {conv.x_bytes, conv.w_bytes, conv.bias ? conv.b_bytes : 0},
        .output_bytes = {poet_band_bytes(p->filters, p->of, p->rows, conv.windows.ow)},
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
    const poet_conv2d_rows_params *p = (const poet_conv2d_rows_params *)args->params;
    const float *const w = (const float *)args->inputs[1] + p->first * conv.taps;
    const float *const b = conv.bias ? (const float *)args->inputs[2] + p->first : NULL;
    conv.out_channels = p->filters; /* and there are no others */
    poet_convolution(&conv, 0, p->filters, args->inputs[0], w, b, args->workspace, args->outputs[0]);
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

/* As of a plane whose y are these rows of gy alone: the padding above gx is what lies between. */
static int read_gradient(const int32_t *params, poet_conv *conv)
{
    const int32_t most = 1 << 28; /* so that sums of them are in 32 bits */
    const int status = poet_conv_read_rows(params, conv);
    const poet_windows *win = &conv->windows;
    if (status != POET_OK || conv->bias || conv->top > 0 || conv->top < -most || win->sh > most ||
        conv->y_plane != win->oh * win->ow) {
        return POET_E_ARGUMENT;
    }
    conv->windows.ph = -conv->top;
    return POET_OK;
}

int poet_conv2d_backward_input_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    return poet_input_gradient_sizes(read_gradient(params, &conv), &conv, sizes);
}

int poet_conv2d_backward_input_rows_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = read_gradient(args->params, &conv);
    if (status == POET_OK) {
        poet_input_gradient(&conv, args->inputs[0], args->inputs[1], args->workspace, args->outputs[0]);
    }
    return status;
}
