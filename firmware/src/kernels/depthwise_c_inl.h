/* SPDX-License-Identifier: Apache-2.0 */
/* Planes of a depthwise convolution in C, for every target without its own, and for sums so far. */
#ifndef POET_KERNELS_DEPTHWISE_C_INL_H
#define POET_KERNELS_DEPTHWISE_C_INL_H

#include "multiply_add.h"

/* A row of a plane; NULL outside, where all elements are zeros. */
static inline const float *row_of(const float *plane, int32_t height, int32_t width, int32_t row)
{
    return row >= 0 && row < height ? plane + row * width : NULL;
}

static inline float element(const float *row, int32_t width, int32_t column)
{
    return row != NULL && column >= 0 && column < width ? row[column] : 0.0f;
}

/* Four results beside one another, `apart` columns of y each from the next; those beyond the row are no results. */
static inline void begin_four(bool adds, float start, const float *y, int32_t left, int32_t apart, float *sums)
{
    for (int32_t i = 0; i < POET_TILE; i++) {
        sums[i] = adds && i * apart < left ? y[i * apart] : start;
    }
}

static inline void end_four(const float *sums, int32_t left, int32_t apart, float *y)
{
    for (int32_t i = 0; i < POET_TILE && i * apart < left; i++) {
        y[i * apart] = sums[i];
    }
}

static inline void add_four(float *sums, float weight, const float *row, int32_t width, int32_t column, int32_t step)
{
    if (row != NULL && column >= 0 && column + 3 * step < width) {
        row += column;
        poet_multiply_add_1x4(sums, weight, row[0], row[step], row[2 * step], row[3 * step]);
    } else {
        poet_multiply_add_1x4(sums, weight, element(row, width, column), element(row, width, column + step),
                              element(row, width, column + 2 * step), element(row, width, column + 3 * step));
    }
}

static inline void sum_windows(const poet_windows *win, int32_t channels, bool adds, const float *x, const float *w,
                               const float *bias, float *y)
{
    for (int32_t channel = 0; channel < channels; channel++) {
        const float start = bias != NULL ? bias[channel] : SUM_OF_NOTHING;
        for (int32_t i = 0; i < win->oh; i++) {
            for (int32_t j = 0; j < win->ow; j += POET_TILE) {
                float sums[POET_TILE];
                begin_four(adds, start, y + j, win->ow - j, 1, sums);
                for (int32_t r = 0; r < KERNEL_WIDTH; r++) {
                    const float *row = row_of(x, win->h, win->w, i * win->sh + r - 1);
                    for (int32_t s = 0; s < KERNEL_WIDTH; s++) {
                        add_four(sums, w[r * KERNEL_WIDTH + s], row, win->w, j * win->sw + s - 1, win->sw);
                    }
                }
                end_four(sums, win->ow - j, 1, y + j);
            }
            y += win->ow;
        }
        x += win->h * win->w;
        w += KERNEL_WEIGHTS;
    }
}

/* Every column of gx with the same taps: with a stride of two, an element meets every second one. */
static inline void sum_gradients_of_row(const poet_windows *win, bool adds, const float *gy, const float *w, int32_t i,
                                        int32_t first, float *gx)
{
    const int32_t halved = win->sh - 1;
    for (int32_t j = first; j < win->w; j += POET_TILE * win->sw) {
        float sums[POET_TILE];
        begin_four(adds, SUM_OF_NOTHING, gx + j, win->w - j, win->sw, sums);
        for (int32_t r = (i + 1) & halved; r < KERNEL_WIDTH; r += win->sh) {
            const float *row = row_of(gy, win->oh, win->ow, (i + 1 - r) >> halved);
            for (int32_t s = (j + 1) & halved; s < KERNEL_WIDTH; s += win->sw) {
                add_four(sums, w[r * KERNEL_WIDTH + s], row, win->ow, (j + 1 - s) >> halved, 1);
            }
        }
        end_four(sums, win->w - j, win->sw, gx + j);
    }
}

static inline void sum_gradients(const poet_windows *win, int32_t channels, bool adds, const float *gy, const float *w,
                                 float *gx)
{
    for (int32_t channel = 0; channel < channels; channel++) {
        for (int32_t i = 0; i < win->h; i++) {
            for (int32_t first = 0; first < win->sw; first++) {
                sum_gradients_of_row(win, adds, gy, w, i, first, gx);
            }
            gx += win->w;
        }
        gy += win->oh * win->ow;
        w += KERNEL_WEIGHTS;
    }
}

/* A row of gradients times those columns of a row of inputs that three taps meet. */
static inline void add_products(const poet_windows *win, const float *gy, const float *row, float *gw)
{
    for (int32_t j = 0; j < win->ow; j++) {
        const int32_t column = j * win->sw - 1;
        gw[0] = poet_multiply_add_1x1(gw[0], gy[j], element(row, win->w, column));
        gw[1] = poet_multiply_add_1x1(gw[1], gy[j], row[column + 1]);
        gw[2] = poet_multiply_add_1x1(gw[2], gy[j], element(row, win->w, column + 2));
    }
}

/* Rows outside the plane would add zeros to sums that are no negative zeros. */
static inline void sum_products(const poet_windows *win, int32_t channels, const float *gy, const float *x, float *gw)
{
    for (int32_t channel = 0; channel < channels; channel++) {
        for (int32_t i = 0; i < win->oh; i++) {
            for (int32_t r = 0; r < KERNEL_WIDTH; r++) {
                const float *row = row_of(x, win->h, win->w, i * win->sh + r - 1);
                if (row != NULL) {
                    add_products(win, gy, row, gw + r * KERNEL_WIDTH);
                }
            }
            gy += win->ow;
        }
        x += win->h * win->w;
        gw += KERNEL_WEIGHTS;
    }
}

#endif
