/* Gradient of a convolution by its input: gx[n,c] = sum over k, r, s of gy[n,k] * w[k,c,r,s]. */
#include "conv.h"

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
    return POET_OK;
}

/* One input channel of one image: gy starts at its group's first output channel, w at tap (first output channel, c). */
static void gather_channel(const poet_conv *conv, const float *gy, const float *w, float *gx)
{
    const poet_windows *win = &conv->windows;
    for (int32_t y = 0; y < win->h; y++) {
        for (int32_t x = 0; x < win->w; x++) {
            float sum = 0.0f;
            for (int32_t k = 0; k < conv->out_channels; k++) {
                const float *plane = gy + k * win->oh * win->ow;
                const float *tap = w + k * conv->taps;
                for (int32_t r = 0; r < win->r; r++) {
                    const int32_t down = y + win->ph - r;
                    if (down < 0 || down % win->sh != 0 || down / win->sh >= win->oh) {
                        continue;
                    }
                    for (int32_t s = 0; s < win->s; s++) {
                        const int32_t right = x + win->pw - s;
                        if (right < 0 || right % win->sw != 0 || right / win->sw >= win->ow) {
                            continue;
                        }
                        sum += plane[down / win->sh * win->ow + right / win->sw] * tap[r * win->s + s];
                    }
                }
            }
            *gx++ = sum;
        }
    }
}

int poet_conv2d_backward_input_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const float *gy = args->inputs[0];
    float *gx = args->outputs[0];
    const poet_windows *win = &conv.windows;
    for (int32_t n = 0; n < conv.n; n++) {
        const float *w = args->inputs[1];
        for (int32_t group = 0; group < conv.groups; group++) {
            for (int32_t c = 0; c < conv.in_channels; c++) {
                gather_channel(&conv, gy, w + c * win->r * win->s, gx);
                gx += win->h * win->w;
            }
            gy += conv.out_channels * win->oh * win->ow;
            w += conv.out_channels * conv.taps;
        }
    }
    return POET_OK;
}
