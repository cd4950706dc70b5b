/* Gradient of a convolution by its input: gx[n,c] = sum over k, r, s of gy[n,k] * w[k,c,r,s].
 *
 * With a stride, the rows of gx fall into phases: a row at distance y + ph from the padded top meets only the taps r
 * that leave the same remainder by the stride. Columns likewise. Within a phase this is a convolution without stride over
 * gy, with the taps in descending order; its rows of gy are laid out with zeros around them in the workspace. A pointwise
 * convolution has one phase with a tap, and reads gy where it lies. */
#include "block.h"
#include "conv.h"
#include "lines.h"

/* One axis of one phase: taps first, first + stride, ... of the kernel, elements begin, begin + stride, ... of gx. */
typedef struct phase {
    int32_t first, taps;
    int32_t begin, count;
    int32_t source; /* position in gy that meets tap `first` at element `begin` */
} phase;

static phase phase_of(int32_t remainder, int32_t kernel, int32_t stride, int32_t padding, int32_t extent)
{
    phase p;
    p.first = remainder;
    p.taps = remainder < kernel ? (kernel - remainder + stride - 1) / stride : 0;
    p.begin = ((remainder - padding) % stride + stride) % stride;
    p.count = p.begin < extent ? (extent - p.begin + stride - 1) / stride : 0;
    p.source = (p.begin + padding - remainder) / stride;
    return p;
}

static int64_t line_width(int32_t columns, int32_t taps)
{
    return (int64_t)(columns < POET_BLOCK ? POET_BLOCK : columns) + taps - 1;
}

/* Rows of gx computed from one filling of the workspace: of a single channel of gy, all of it is laid out at once. */
static int32_t rows_at_a_time(const poet_conv *conv, int32_t rows)
{
    return conv->in_place || conv->out_channels == 1 ? rows : 1;
}

int poet_conv2d_backward_input_sizes(const int32_t *params, poet_sizes *sizes)
{
    poet_conv conv;
    const int status = poet_conv_read(params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &conv.windows;
    const int32_t rows = rows_at_a_time(&conv, (win->h - 1) / win->sh + 1);
    *sizes = (poet_sizes){
        .inputs = 2,
        .outputs = 1,
        .input_bytes = {conv.y_bytes, conv.w_bytes},
        .output_bytes = {conv.x_bytes},
    };
    if (!conv.in_place) {
        sizes->workspace_bytes =
            poet_lines_bytes(conv.out_channels, (int64_t)rows + (win->r - 1) / win->sh,
                             line_width((win->w - 1) / win->sw + 1, (win->s - 1) / win->sw + 1));
        return sizes->workspace_bytes != 0 ? POET_OK : POET_E_ARGUMENT;
    }
    return POET_OK;
}

static void fill_zeros(const phase *rows, const phase *columns, const poet_conv *conv, float *gx)
{
    const poet_windows *win = &conv->windows;
    for (int32_t c = 0; c < conv->in_channels; c++) {
        for (int32_t i = 0; i < rows->count; i++) {
            float *row = gx + (c * win->h + rows->begin + i * win->sh) * win->w + columns->begin;
            for (int32_t j = 0; j < columns->count; j++) {
                row[j * win->sw] = 0.0f;
            }
        }
    }
}

/* One phase of one group in one image. */
static void compute_phase(const poet_conv *conv, const phase *rows, const phase *columns, const float *gy,
                          const float *w, float *workspace, float *gx)
{
    const poet_windows *win = &conv->windows;
    const int32_t step = rows_at_a_time(conv, rows->count);
    const poet_lines lines = {
        .channels = conv->out_channels,
        .rows = step + rows->taps - 1,
        .width = (int32_t)line_width(columns->count, columns->taps),
        .h = win->oh,
        .w = win->ow,
        .left = columns->source - (columns->taps - 1),
    };
    const poet_block block = {
        .rows = conv->in_channels,
        .columns = columns->count,
        .channels = conv->out_channels,
        .lines = rows->taps,
        .taps = columns->taps,
        .a_row = win->r * win->s,
        .a_channel = conv->taps,
        .a_line = win->sh * win->s,
        .a_tap = win->sw,
        .b_channel = conv->in_place ? win->oh * win->ow : lines.rows * lines.width,
        .b_line = -lines.width,
        .b_tap = -1,
        .b_column = 1,
        .out_row = win->h * win->w,
        .out_column = win->sw,
        .strips = step,
        .b_strip = lines.width,
        .out_strip = win->sh * win->w,
    };
    const float *first = conv->in_place ? gy : workspace; /* what meets tap `first` of a step's first row and column */
    first += (rows->taps - 1) * lines.width + columns->taps - 1;
    for (int32_t i = 0; i < rows->count; i += step) {
        if (!conv->in_place) {
            poet_lines_fill(&lines, gy, rows->source + i - (rows->taps - 1), workspace);
        }
        poet_block_multiply(&block, w + rows->first * win->s + columns->first, NULL, first,
                            gx + (rows->begin + i * win->sh) * win->w + columns->begin);
    }
}

int poet_conv2d_backward_input_run(const poet_op_args *args)
{
    poet_conv conv;
    const int status = poet_conv_read(args->params, &conv);
    if (status != POET_OK) {
        return status;
    }
    const poet_windows *win = &conv.windows;
    const float *gy = args->inputs[0];
    float *gx = args->outputs[0];
    for (int32_t n = 0; n < conv.n; n++) {
        const float *w = args->inputs[1];
        for (int32_t group = 0; group < conv.groups; group++) {
            for (int32_t i = 0; i < win->sh; i++) {
                const phase rows = phase_of(i, win->r, win->sh, win->ph, win->h);
                for (int32_t j = 0; j < win->sw; j++) {
                    const phase columns = phase_of(j, win->s, win->sw, win->pw, win->w);
                    if (rows.count == 0 || columns.count == 0) {
                        continue;
                    }
                    if (rows.taps == 0 || columns.taps == 0) {
                        fill_zeros(&rows, &columns, &conv, gx);
                    } else {
                        compute_phase(&conv, &rows, &columns, gy, w, args->workspace, gx);
                    }
                }
            }
            gy += conv.out_channels * win->oh * win->ow;
            w += conv.out_channels * conv.taps;
            gx += conv.in_channels * win->h * win->w;
        }
    }
    return POET_OK;
}
