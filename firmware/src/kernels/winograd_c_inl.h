/* SPDX-License-Identifier: Apache-2.0 */
/* The transforms of winograd.c in C, for every target without its own. */
#ifndef POET_KERNELS_WINOGRAD_C_INL_H
#define POET_KERNELS_WINOGRAD_C_INL_H

#include <stddef.h>

#include "gemm.h"

/* One column of a tile's inputs, from each of four rows. */
static void transform_column(const float *const *rows, int32_t at, bool inside, float *column)
{
    const float d0 = inside ? rows[0][at] : 0.0f;
    const float d1 = inside ? rows[1][at] : 0.0f;
    const float d2 = inside ? rows[2][at] : 0.0f;
    const float d3 = inside ? rows[3][at] : 0.0f;
    column[0] = d0 - d2;
    column[1] = (d1 + d2) * 0.5f;
    column[2] = (d2 - d1) * 0.5f;
    column[3] = d1 - d3;
}

/* Tiles side by side: `rows` are where the four rows of the first one begin. `first` is -1 where its first two columns
 * lie outside, 0 where the first alone does; `last` says so of the last two of the last one. */
static void transform_inputs(const float *const *rows, int32_t tiles, int32_t first, int32_t last, float *v,
                             int32_t v_tile)
{
    float columns[4][4];
    transform_column(rows, 0, first > 0, columns[0]);
    transform_column(rows, 1, first >= 0, columns[1]);
    for (int32_t tile = 0; tile < tiles; tile++) {
        const int32_t at = 2 * tile + 2;
        transform_column(rows, at, tile < tiles - 1 || last >= 0, columns[2]);
        transform_column(rows, at + 1, tile < tiles - 1 || last > 0, columns[3]);
        for (int32_t i = 0; i < 4; i++) {
            v[4 * i] = columns[0][i] - columns[2][i];
            v[4 * i + 1] = (columns[1][i] + columns[2][i]) * 0.5f;
            v[4 * i + 2] = (columns[2][i] - columns[1][i]) * 0.5f;
            v[4 * i + 3] = columns[1][i] - columns[3][i];
            columns[0][i] = columns[2][i];
            columns[1][i] = columns[3][i];
        }
        v += v_tile;
    }
}

/* Of one filter, for so many channels. */
static void transform_weights(const float *w, int32_t step, int32_t channels, bool turned, float *u)
{
    for (int32_t channel = 0; channel < channels; channel++) {
        float g[3][3];
        float columns[4][3];
        for (int32_t i = 0; i < 9; i++) {
            g[i / 3][i % 3] = w[turned ? 8 - i : i];
        }
        for (int32_t j = 0; j < 3; j++) {
            const float sum = g[0][j] + g[2][j];
            columns[0][j] = g[0][j];
            columns[1][j] = sum + g[1][j];
            columns[2][j] = sum - g[1][j];
            columns[3][j] = g[2][j];
        }
        for (int32_t i = 0; i < 4; i++) {
            const float sum = columns[i][0] + columns[i][2];
            u[4 * i] = columns[i][0];
            u[4 * i + 1] = sum + columns[i][1];
            u[4 * i + 2] = sum - columns[i][1];
            u[4 * i + 3] = columns[i][2];
        }
        w += step;
        u += BLOCK * PLACES;
    }
}

/* Four rows of A with four columns of B: m[16][4][4]. */
static void multiply_places(const float *a, const float *b, int32_t count, float *m)
{
    const poet_gemm gemm = {
        .rows = BLOCK,
        .columns = BLOCK,
        .channels = 1,
        .k_rows = count,
        .taps = 1,
        .a_row = PLACES,
        .a_k_row = BLOCK * PLACES,
        .b_column = PLACES,
        .b_k_row = BLOCK * PLACES,
        .out_row = BLOCK,
        .out_column = 1,
        .panels = 1,
    };
    for (int32_t place = 0; place < PLACES; place++) {
        poet_gemm_multiply(&gemm, a + place, NULL, b + place, m + place * BLOCK * BLOCK);
    }
}

/* Results of four tiles, for so many filters: the upper and the lower row of the first two, and of the others. */
static void transform_outputs(const float *m, float *const *rows, int32_t plane, int32_t filters, bool adds)
{
    for (int32_t filter = 0; filter < filters; filter++) {
        for (int32_t tile = 0; tile < BLOCK; tile++) {
            const float *at = m + filter * BLOCK + tile;
            float *const *pair = rows + tile / 2 * 2;
            float columns[2][4];
            for (int32_t j = 0; j < 4; j++) {
                const float m0 = at[j * BLOCK * BLOCK];
                const float m1 = at[(4 + j) * BLOCK * BLOCK];
                const float m2 = at[(8 + j) * BLOCK * BLOCK];
                const float m3 = at[(12 + j) * BLOCK * BLOCK];
                columns[0][j] = m0 + m1 + m2;
                columns[1][j] = m1 - m2 - m3;
            }
            for (int32_t i = 0; i < 2; i++) {
                float *y = pair[i] + filter * plane + tile % 2 * 2;
                const float y0 = columns[i][0] + columns[i][1] + columns[i][2];
                const float y1 = columns[i][1] - columns[i][2] - columns[i][3];
                y[0] = adds ? y[0] + y0 : y0;
                y[1] = adds ? y[1] + y1 : y1;
            }
        }
    }
}

/* A gy A^T of tiles side by side, from two rows. */
static void transform_gradients(const float *upper, const float *lower, int32_t tiles, float *v)
{
    for (int32_t tile = 0; tile < tiles; tile++) {
        float columns[4][2];
        for (int32_t j = 0; j < 2; j++) {
            const float g0 = upper[2 * tile + j];
            const float g1 = lower[2 * tile + j];
            columns[0][j] = g0;
            columns[1][j] = g0 + g1;
            columns[2][j] = g0 - g1;
            columns[3][j] = -g1;
        }
        for (int32_t i = 0; i < 4; i++) {
            v[4 * i] = columns[i][0];
            v[4 * i + 1] = columns[i][0] + columns[i][1];
            v[4 * i + 2] = columns[i][0] - columns[i][1];
            v[4 * i + 3] = -columns[i][1];
        }
        v += BLOCK * PLACES;
    }
}

/* Adds G^T S G to the gradients of one filter, for so many channels. */
static void add_gradients(const float *m, int32_t channels, float *gw)
{
    for (int32_t channel = 0; channel < channels; channel++) {
        float columns[3][4];
        for (int32_t j = 0; j < 4; j++) {
            const float m1 = m[channel + (4 + j) * BLOCK * BLOCK];
            const float m2 = m[channel + (8 + j) * BLOCK * BLOCK];
            const float sum = m1 + m2;
            columns[0][j] = m[channel + j * BLOCK * BLOCK] + sum;
            columns[1][j] = m1 - m2;
            columns[2][j] = sum + m[channel + (12 + j) * BLOCK * BLOCK];
        }
        for (int32_t i = 0; i < 3; i++) {
            const float sum = columns[i][1] + columns[i][2];
            gw[0] += columns[i][0] + sum;
            gw[1] += columns[i][1] - columns[i][2];
            gw[2] += sum + columns[i][3];
            gw += 3;
        }
    }
}

#endif
