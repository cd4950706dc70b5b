/* SPDX-License-Identifier: Apache-2.0 */
/* A band of a convolution, and of its gradients: some rows of y, of a plane that is computed band by band. Bands from
 * top to bottom give the bits of the whole, where that is computed directly (docs/SPEC.md, section 1). */
#include <stddef.h>

#include "../kernels/convolution.h"
#include "../kernels/input_gradient.h"
#include "../kernels/weight_gradient.h"

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
        .in_place = 1,
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
    conv.adds = true;
    poet_weight_gradient(&conv, 0, conv.out_channels, gy, args->inputs[1], args->workspace, args->outputs[0]);
    for (int32_t k = 0; conv.bias && k < conv.out_channels; k++) {
        float *const gb = args->outputs[1];
        gb[k] = poet_bias_gradient(&conv, k, gy, gb[k]);
    }
    return POET_OK;
}

/* gy's planes are `of` rows apart, and that is all there is of them: what lies outside counts as zeros. */
static int read_band_of_input(const int32_t *params, poet_conv *conv)
{
    const poet_conv2d_backward_input_rows_params *p = (const poet_conv2d_backward_input_rows_params *)params;
    const int32_t ow = p->w + 2 * p->pw - p->s + 1;
    if (p->r < 1 || p->s < 1 || p->ph < 0 || p->pw < 0 || p->ph >= p->r || p->pw >= p->s || ow < 1 || p->rows < 1 ||
        p->rows > p->of || p->top <= -p->of - p->r || p->top >= p->of + p->r) {
        return POET_E_ARGUMENT;
    }
    *conv = (poet_conv){
        .n = 1,
        .groups = 1,
        .in_channels = p->c,
        .out_channels = p->k,
        .taps = p->c * p->r * p->s,
        .windows = {.h = p->h,
                    .w = p->w,
                    .r = p->r,
                    .s = p->s,
                    .sh = 1,
                    .sw = 1,
                    .ph = p->ph,
                    .pw = p->pw,
                    .oh = p->of,
                    .ow = ow},
        .gy_top = p->top,
    };
    conv->x_bytes = 4 * poet_count(p->c, p->h, p->w, 1);
    conv->w_bytes = 4 * poet_count(p->k, p->c, p->r, p->s);
    conv->y_bytes = 4 * poet_count(p->k, p->of, ow, 1);
    return conv->x_bytes != 0 && conv->w_bytes != 0 && conv->y_bytes != 0 ? POET_OK : POET_E_ARGUMENT;
}

int poet_conv2d_backward_input_rows_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = read_band_of_input(params, &conv);
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

int poet_conv2d_backward_input_rows_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = read_band_of_input(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    poet_input_gradient(&conv, args->inputs[0], args->inputs[1], args->workspace, args->outputs[0]);
    return POET_OK;
}
