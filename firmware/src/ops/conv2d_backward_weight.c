/* Gradient of a convolution by its weights, gw[k,c,r,s] = sum over n and positions of gy[n,k] * x[n,c], and by its
 * bias, gb[k] = sum over n and positions of gy[n,k]. */
#include "conv.h"

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
    return POET_OK;
}

/* Positions along one axis at which tap `tap` reads inside the input. */
static poet_span positions_inside(int32_t tap, int32_t stride, int32_t padding, int32_t extent, int32_t positions)
{
    const int32_t offset = tap - padding; /* position p reads p * stride + offset */
    const int32_t last = extent - 1 - offset;
    poet_span span;
    span.first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    span.end = last < 0 ? 0 : last / stride + 1;
    if (span.end > positions) {
        span.end = positions;
    }
    return span;
}

/* Sum of gy * x over all images and positions, for one weight. */
static float correlate(const poet_conv *conv, const float *gy, const float *x, int32_t r, int32_t s)
{
    const poet_windows *win = &conv->windows;
    const poet_span rows = positions_inside(r, win->sh, win->ph, win->h, win->oh);
    const poet_span columns = positions_inside(s, win->sw, win->pw, win->w, win->ow);
    const int32_t x_step = conv->groups * conv->in_channels * win->h * win->w;
    const int32_t y_step = conv->groups * conv->out_channels * win->oh * win->ow;
    float sum = 0.0f;
    for (int32_t n = 0; n < conv->n; n++) {
        for (int32_t oy = rows.first; oy < rows.end; oy++) {
            const float *line = x + n * x_step + (oy * win->sh - win->ph + r) * win->w - win->pw + s;
            const float *gradient = gy + n * y_step + oy * win->ow;
            for (int32_t ox = columns.first; ox < columns.end; ox++) {
                sum += gradient[ox] * line[ox * win->sw];
            }
        }
    }
    return sum;
}

static float sum_of_channel(const poet_conv *conv, const float *gy)
{
    const int32_t plane = conv->windows.oh * conv->windows.ow;
    const int32_t step = conv->groups * conv->out_channels * plane;
    float sum = 0.0f;
    for (int32_t n = 0; n < conv->n; n++) {
        for (int32_t i = 0; i < plane; i++) {
            sum += gy[n * step + i];
        }
    }
    return sum;
}

int poet_conv2d_backward_weight_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &conv.windows;
    float *gw = args->outputs[0];
    float *gb = conv.bias ? args->outputs[1] : NULL;
    for (int32_t k = 0; k < conv.groups * conv.out_channels; k++) {
        const float *gy = (const float *)args->inputs[0] + k * win->oh * win->ow;
        const float *x = (const float *)args->inputs[1] + k / conv.out_channels * conv.in_channels * win->h * win->w;
        for (int32_t c = 0; c < conv.in_channels; c++) {
            for (int32_t r = 0; r < win->r; r++) {
                for (int32_t s = 0; s < win->s; s++) {
                    *gw++ = correlate(&conv, gy, x + c * win->h * win->w, r, s);
                }
            }
        }
        if (gb) {
            gb[k] = sum_of_channel(&conv, gy);
        }
    }
    return POET_OK;
}
