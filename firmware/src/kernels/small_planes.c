/* SPDX-License-Identifier: Apache-2.0 */
#include "small_planes.h"

#include <stddef.h>

#include "bits.h"
#include "micro_kernel.h"
#include "poet/operator.h"

#define PLACES 4
#define WIDTH 2

/* Its sign is that of poet_finite_mark. */
#define MARK(bits) (((bits) & POET_INFINITY) + UINT32_C(0x00800000))

const uint8_t poet_small_planes_kernels = 1;

/* Numbers a tap of a place counts from: the taps that meet the plane are two rows and two columns from there on. An
 * input gradient's place meets those of the place across. */
static int32_t first_tap(int32_t place)
{
    return KERNEL_WIDTH * (1 - place / WIDTH) + 1 - place % WIDTH;
}

static bool meets(int32_t place, int32_t tap)
{
    const int32_t row = tap / KERNEL_WIDTH + place / WIDTH;
    const int32_t column = tap % KERNEL_WIDTH + place % WIDTH;
    return (row == 1 || row == 2) && (column == 1 || column == 2);
}

/* Kernels whose products with the zeros around the plane are in one sum. */
typedef struct kernels {
    const float *first;
    int32_t count, step;
} kernels;

/* Adds those products to what begins a sum, at one place. */
static float add_beside(const kernels *kernels, int32_t place, float sum)
{
    const float *w = kernels->first;
    for (int32_t i = 0; i < kernels->count; i++, w += kernels->step) {
        for (int32_t tap = 0; tap < KERNEL_WEIGHTS; tap++) {
            if (!meets(place, tap)) {
                sum += 0.0f * w[tap];
            }
        }
    }
    return sum;
}

/* The same at all places, into start[place][of `rows`]. A number's product is a zero of its sign, so that only -0 can
 * change, and does unless all signs beside the plane are negative. */
static void begin_sums(const kernels *kernels, float sum, int32_t rows, float *start)
{
    const poet_bits *w = (const poet_bits *)kernels->first;
    uint32_t marks = 0; /* as poet_finite_mark makes them */
    uint32_t upper = UINT32_MAX, lower = UINT32_MAX, left = UINT32_MAX, right = UINT32_MAX;
    for (int32_t i = 0; i < kernels->count; i++, w += kernels->step) {
        const uint32_t w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3], w5 = w[5], w6 = w[6], w7 = w[7], w8 = w[8];
        upper &= w0 & w1 & w2;
        lower &= w6 & w7 & w8;
        left &= w0 & w3 & w6;
        right &= w2 & w5 & w8;
        marks |= MARK(w0) | MARK(w1) | MARK(w2) | MARK(w3) | MARK(w5) | MARK(w6) | MARK(w7) | MARK(w8);
    }
    const uint32_t negative[PLACES] = {upper & left, upper & right, lower & left, lower & right};
    for (int32_t place = 0; place < PLACES; place++) {
        if ((marks & POET_MINUS_ZERO) != 0) {
            start[place * rows] = add_beside(kernels, place, sum);
        } else {
            start[place * rows] = (negative[place] & POET_MINUS_ZERO) != 0 ? sum : sum + 0.0f;
        }
    }
}

/* To a place of each plane of so many images, one for each of `rows` planes apiece. */
static void add_start(const float *start, int32_t images, int32_t image, int32_t rows, float *at)
{
    for (int32_t n = 0; n < images; n++, at += image) {
        for (int32_t row = 0; row < rows; row++) {
            at[row * PLACES] += start[row];
        }
    }
}

/* `gemm` lacks what the two have in common. */
static void compute_places(const poet_conv *conv, poet_gemm *gemm, poet_gemm_way *way, bool adds, bool turned,
                           const float *w, const float *start, const float *input, float *output)
{
    gemm->columns = conv->n;
    gemm->k_rows = WIDTH;
    gemm->taps = WIDTH;
    gemm->a_k_row = KERNEL_WIDTH;
    gemm->a_tap = 1;
    gemm->b_channel = PLACES;
    gemm->out_row = PLACES;
    gemm->panels = 1;
    for (int32_t place = 0; place < PLACES; place++) {
        const int32_t from = turned ? PLACES - 1 - place : place;
        const float *begin = start + from * gemm->rows;
        if (adds) {
            add_start(begin, conv->n, gemm->out_column, gemm->rows, output + place);
        }
        way(gemm, w + first_tap(from), begin, input, output + place);
    }
}

void poet_small_planes_convolution(const poet_conv *conv, poet_gemm_way *way, bool adds, int32_t count, const float *x,
                                   const float *w, const float *bias, float *workspace, float *y)
{
    for (int32_t k = 0; k < count; k++) {
        const kernels filter = {w + k * conv->taps, conv->in_channels, KERNEL_WEIGHTS};
        begin_sums(&filter, bias == NULL ? SUM_OF_NOTHING : bias[k], count, workspace + k);
    }
    poet_gemm gemm = {
        .rows = count,
        .channels = conv->in_channels,
        .a_row = conv->taps,
        .a_channel = KERNEL_WEIGHTS,
        .b_column = PLACES * conv->in_channels,
        .b_k_row = WIDTH,
        .b_tap = 1,
        .out_column = PLACES * conv->out_channels,
    };
    compute_places(conv, &gemm, way, adds, false, w, workspace, x, y);
}

void poet_small_planes_input_gradient(const poet_conv *conv, poet_gemm_way *way, bool adds, int32_t count,
                                      const float *gy, const float *w, float *workspace, float *gx)
{
    for (int32_t c = 0; c < conv->in_channels; c++) {
        const kernels channel = {w + c * KERNEL_WEIGHTS, count, conv->taps};
        begin_sums(&channel, SUM_OF_NOTHING, conv->in_channels, workspace + c);
    }
    poet_gemm gemm = {
        .rows = conv->in_channels,
        .channels = count,
        .a_row = KERNEL_WEIGHTS,
        .a_channel = conv->taps,
        .b_column = PLACES * conv->out_channels,
        .b_k_row = -WIDTH,
        .b_tap = -1,
        .out_column = PLACES * conv->in_channels,
    };
    compute_places(conv, &gemm, way, adds, true, w, workspace, gy + PLACES - 1, gx);
}

/* Into start[tap][of `rows`] for one filter: a zero, or no number where a gradient that is none meets a zero around the
 * plane. */
static void begin_gradients(const poet_conv *conv, const float *gy, int32_t rows, float *start)
{
    float zeros[PLACES] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int32_t n = 0; n < conv->n; n++, gy += PLACES * conv->out_channels) {
        for (int32_t place = 0; place < PLACES; place++) {
            zeros[place] += 0.0f * gy[place];
        }
    }
    for (int32_t tap = 0; tap < KERNEL_WEIGHTS; tap++) {
        float sum = 0.0f;
        for (int32_t place = 0; place < PLACES; place++) {
            sum += meets(place, tap) ? 0.0f : zeros[place];
        }
        start[tap * rows] = sum;
    }
}

/* What a tap's row, or column, meets: so many of the gradients' from `gy` on, and as many of the input's from `x`. */
typedef struct met {
    int32_t count, gy, x;
} met;

void poet_small_planes_weight_gradient(const poet_conv *conv, int32_t count, const float *gy, const float *x,
                                       float *workspace, float *gw)
{
    static const met met_by[KERNEL_WIDTH] = {{1, 1, 0}, {2, 0, 0}, {1, 0, 1}};
    for (int32_t k = 0; k < count; k++) {
        begin_gradients(conv, gy + k * PLACES, count, workspace + k);
    }
    for (int32_t tap = 0; tap < KERNEL_WEIGHTS; tap++) {
        const met rows = met_by[tap / KERNEL_WIDTH], columns = met_by[tap % KERNEL_WIDTH];
        const poet_gemm gemm = {
            .rows = count,
            .columns = conv->in_channels,
            .channels = conv->n,
            .k_rows = rows.count,
            .taps = columns.count,
            .a_row = PLACES,
            .a_channel = PLACES * conv->out_channels,
            .a_k_row = WIDTH,
            .a_tap = 1,
            .b_column = PLACES,
            .b_channel = PLACES * conv->in_channels,
            .b_k_row = WIDTH,
            .b_tap = 1,
            .out_row = conv->taps,
            .out_column = KERNEL_WEIGHTS,
            .panels = 1,
        };
        poet_gemm_multiply(&gemm, gy + WIDTH * rows.gy + columns.gy, workspace + tap * count,
                           x + WIDTH * rows.x + columns.x, gw + tap);
    }
}
