/* Convolution (cross-correlation, as in deep learning): y[n,k] = b[k] + sum over c, r, s of x[n,c] * w[k,c,r,s]. */
#include "conv.h"

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
    return POET_OK;
}

/* One output channel of one image: x starts at its group's first channel, w at the channel's first tap. */
static void convolve_channel(const poet_conv *conv, const float *x, const float *w, float bias, float *y)
{
    const poet_windows *win = &conv->windows;
    for (int32_t oy = 0; oy < win->oh; oy++) {
        const int32_t top = oy * win->sh - win->ph;
        const poet_span rows = poet_span_inside(top, win->r, win->h);
        for (int32_t ox = 0; ox < win->ow; ox++) {
            const int32_t left = ox * win->sw - win->pw;
            const poet_span columns = poet_span_inside(left, win->s, win->w);
            float sum = bias;
            for (int32_t c = 0; c < conv->in_channels; c++) {
                for (int32_t r = rows.first; r < rows.end; r++) {
                    const float *line = x + (c * win->h + top + r) * win->w + left;
                    const float *tap = w + (c * win->r + r) * win->s;
                    for (int32_t s = columns.first; s < columns.end; s++) {
                        sum += line[s] * tap[s];
                    }
                }
            }
            *y++ = sum;
        }
    }
}

int poet_conv2d_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const float *x = args->inputs[0];
    const float *bias = conv.bias ? args->inputs[2] : NULL;
    float *y = args->outputs[0];
    const int32_t group_size = conv.in_channels * conv.windows.h * conv.windows.w;
    const int32_t plane_size = conv.windows.oh * conv.windows.ow;
    for (int32_t n = 0; n < conv.n; n++) {
        const float *w = args->inputs[1];
        for (int32_t group = 0; group < conv.groups; group++) {
            for (int32_t k = 0; k < conv.out_channels; k++) {
                convolve_channel(&conv, x, w, bias ? bias[group * conv.out_channels + k] : 0.0f, y);
                w += conv.taps;
                y += plane_size;
            }
            x += group_size;
        }
    }
    return POET_OK;
}
