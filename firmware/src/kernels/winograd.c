/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace holds the transformed inputs of eight tiles in eight channels, the transformed weights of four filters
 * in as many channels, and the sums of a block of four filters and four tiles. A transformed tile's 16 places lie
 * one after another: V[4 tiles][channel][tile][place], U[channel][filter][place], M[place][filter][tile].
 *
 * For a weight gradient it is V[4 channels][tile][channel][place], the gradients of four filters in place of weights,
 * [tile][filter][place], and M[place][filter][channel]: the same products, summed over tiles. */
#include "registers_m4f.h"

#include "winograd.h"

#include <stddef.h>

#include "poet/operator.h"
#include "span.h"

#define BLOCK 4   /* rows and columns of products, and tiles of a group */
#define PLACES 16 /* of a transformed tile */
#define KERNEL 3  /* rows and columns */
#define TILE 2    /* rows and columns of results */
#define EXTENT 4  /* rows and columns that they read */
#define TILES POET_WINOGRAD_TILES

#define U_FLOATS (BLOCK * POET_WINOGRAD_PART * PLACES) /* or half of V */
#define V_FLOATS (TILES / BLOCK * U_FLOATS)
#define WIDEST (TILE * TILES + EXTENT - TILE) /* columns that tiles side by side read */

#if POET_FPU_ASSEMBLY
#include "winograd_m4f_inl.h"
#else
#include "winograd_c_inl.h"
#endif

const uint8_t poet_winograd_kernels = 1;

static int32_t tiles_along(int32_t extent)
{
    return (extent + TILE - 1) / TILE;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Where a tile's results begin. */
typedef struct place {
    int32_t image, row, column;
} place;

/* As many tiles as are computed at a time, one after the other, row by row and image by image; beyond the last one they
 * repeat it. */
typedef struct tiles {
    int32_t count;
    place at[TILES];
    int32_t abreast[TILES];    /* how many lie side by side from this one on */
    bool whole[TILES / BLOCK]; /* of four: two pairs side by side, of which all results are in y */
} tiles;

static int32_t count_tiles(const poet_winograd *job)
{
    return job->n * tiles_along(job->out_h) * tiles_along(job->out_w);
}

static void take_tiles(const poet_winograd *job, int32_t first, int32_t end, tiles *taken)
{
    const int32_t across = tiles_along(job->out_w);
    const int32_t down = tiles_along(job->out_h);
    taken->count = least(end - first, TILES);
    for (int32_t i = TILES - 1; i >= 0; i--) {
        const int32_t tile = least(first + i, end - 1);
        const int32_t row = tile / across;
        const int32_t column = tile - row * across;
        const bool alone = i >= taken->count - 1 || column == across - 1;
        taken->at[i] = (place){row / down, row % down * TILE, column * TILE};
        taken->abreast[i] = alone ? 1 : taken->abreast[i + 1] + 1;
    }
}

/* Some columns of a row with zeros around them. */
static void copy_padded(const float *row, int32_t width, int32_t first, int32_t count, float *to)
{
    for (int32_t i = first; i < first + count; i++) {
        *to++ = i >= 0 && i < width ? row[i] : 0.0f;
    }
}

static const float zeros[WIDEST] = {0}; /* a row outside of the plane */

/* Tiles side by side, of so many channels. Rows that reach beyond the plane are copied to `copies`: places of products
 * that there are none of yet, because stacks are small. */
static void transform_tiles_abreast(const poet_winograd *job, const place *at, int32_t abreast, int32_t channels,
                                    const float *x, float *copies, float *v, int32_t v_tile, int32_t v_channel)
{
    const int32_t first = at->column + job->left;
    const int32_t width = TILE * abreast + EXTENT - TILE;
    const int32_t past = first + width - job->w;
    const bool padded = first < -TILE || past > TILE;
    const float *rows[EXTENT];
    int32_t steps[EXTENT];
    x += at->image * job->image;
    for (int32_t i = 0; i < EXTENT; i++) {
        const int32_t row = at->row + job->top + i;
        const bool inside = row >= 0 && row < job->h;
        steps[i] = inside ? job->h * job->w : 0;
        rows[i] = inside ? x + row * job->w : zeros;
        rows[i] += inside && !padded ? first : 0;
    }
    for (int32_t channel = 0; channel < channels; channel++) {
        if (padded) {
            const float *copied[EXTENT];
            for (int32_t i = 0; i < EXTENT; i++) {
                copy_padded(rows[i], steps[i] > 0 ? job->w : 0, first, width, copies + i * WIDEST);
                copied[i] = copies + i * WIDEST;
            }
            transform_inputs(copied, abreast, 1, 1, v, v_tile);
        } else {
            transform_inputs(rows, abreast, 1 + (first < 0 ? first : 0), 1 - (past > 0 ? past : 0), v, v_tile);
        }
        for (int32_t i = 0; i < EXTENT; i++) {
            rows[i] += steps[i];
        }
        v += v_channel;
    }
}

/* Tiles from `first` to `end`. */
static void transform_tiles(const poet_winograd *job, const tiles *taken, int32_t first, int32_t end, int32_t channels,
                            const float *x, float *copies, float *v, int32_t v_tile, int32_t v_channel)
{
    for (int32_t i = first; i < end;) {
        const int32_t abreast = least(taken->abreast[i], end - i);
        transform_tiles_abreast(job, &taken->at[i], abreast, channels, x, copies, v + (i - first) * v_tile, v_tile,
                                v_channel);
        i += abreast;
    }
}

/* Of four filters; beyond the last one they repeat it. Not inlined, as others here: what they keep would stand on the
 * stack below the products, too. */
__attribute__((noinline)) static void transform_filters(const poet_winograd *job, int32_t filters, int32_t channels,
                                                        const float *w, float *u)
{
    for (int32_t i = 0; i < BLOCK; i++) {
        transform_weights(w + least(i, filters - 1) * job->weights_filter, job->weights_channel, channels, job->turned,
                          u + i * PLACES);
    }
}

static bool are_whole(const poet_winograd *job, const tiles *taken, int32_t first)
{
    bool whole = first + BLOCK <= taken->count;
    for (int32_t i = first; whole && i < first + BLOCK; i += 2) {
        const place *at = &taken->at[i];
        whole = taken->abreast[i] > 1 && at->row + TILE <= job->out_h && at->column + 2 * TILE <= job->out_w;
    }
    return whole;
}

static float *result_at(const poet_winograd *job, const place *at, float *y)
{
    return y + at->image * job->out_image + at->row * job->out_w + at->column;
}

/* The upper and the lower row of two pairs of tiles. */
static void take_rows(float *first, float *second, int32_t width, float **rows)
{
    rows[0] = first;
    rows[1] = first + width;
    rows[2] = second;
    rows[3] = second + width;
}

/* Results of a tile that are in y. */
static void put_tile(const poet_winograd *job, const place *at, const float *results, bool adds, float *y)
{
    const int32_t rows = least(job->out_h - at->row, TILE);
    const int32_t columns = least(job->out_w - at->column, TILE);
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t j = 0; j < columns; j++) {
            const float result = results[i * TILE * 2 + j];
            y[j] = adds ? y[j] + result : result;
        }
        y += job->out_w;
    }
}

/* The four tiles from `first` on. */
__attribute__((noinline)) static void put_tiles(const poet_winograd *job, const tiles *taken, int32_t first,
                                                int32_t filters, const float *m, bool adds, float *y)
{
    const place *at = &taken->at[first];
    const int32_t plane = job->out_h * job->out_w;
    float *rows[4];
    if (taken->whole[first / BLOCK]) {
        take_rows(result_at(job, &at[0], y), result_at(job, &at[2], y), job->out_w, rows);
        transform_outputs(m, rows, plane, filters, adds);
        return;
    }
    const int32_t count = least(taken->count - first, BLOCK);
    for (int32_t filter = 0; filter < filters; filter++) {
        float results[BLOCK * TILE * TILE]; /* two pairs of tiles: two rows of each */
        take_rows(results, results + 2 * TILE * TILE, 2 * TILE, rows);
        transform_outputs(m + filter * BLOCK, rows, 0, 1, false);
        for (int32_t i = 0; i < count; i++) {
            put_tile(job, &at[i], results + i / 2 * 2 * TILE * TILE + i % 2 * TILE, adds,
                     result_at(job, &at[i], y) + filter * plane);
        }
    }
}

static void begin_with(const poet_winograd *job, const float *bias, float *y)
{
    const int32_t plane = job->out_h * job->out_w;
    for (int32_t n = 0; n < job->n; n++) {
        for (int32_t filter = 0; filter < job->filters; filter++) {
            for (int32_t i = 0; i < plane; i++) {
                y[filter * plane + i] = bias[filter];
            }
        }
        y += job->out_image;
    }
}

void poet_winograd_sum(const poet_winograd *job, const float *x, const float *w, const float *bias, float *workspace,
                       float *y)
{
    float *v = workspace;
    float *u = v + V_FLOATS;
    float *m = u + U_FLOATS;
    const int32_t all = count_tiles(job);
    if (bias != NULL) {
        begin_with(job, bias, y);
    }
    for (int32_t tile = 0; tile < all; tile += TILES) {
        tiles taken;
        take_tiles(job, tile, all, &taken);
        for (int32_t first = 0; first < TILES; first += BLOCK) {
            taken.whole[first / BLOCK] = are_whole(job, &taken, first);
        }
        for (int32_t channel = 0; channel < job->channels; channel += POET_WINOGRAD_PART) {
            const int32_t channels = least(job->channels - channel, POET_WINOGRAD_PART);
            const bool adds = job->adds || bias != NULL || channel > 0;
            for (int32_t first = 0; first < taken.count; first += BLOCK) {
                transform_tiles(job, &taken, first, first + BLOCK, channels, x + channel * job->h * job->w, m,
                                v + first / BLOCK * U_FLOATS, PLACES, BLOCK * PLACES);
            }
            for (int32_t filter = 0; filter < job->filters; filter += BLOCK) {
                const int32_t filters = least(job->filters - filter, BLOCK);
                transform_filters(job, filters, channels,
                                  w + filter * job->weights_filter + channel * job->weights_channel, u);
                for (int32_t first = 0; first < taken.count; first += BLOCK) {
                    multiply_places(u, v + first / BLOCK * U_FLOATS, channels, m);
                    put_tiles(job, &taken, first, filters, m, adds, y + filter * job->out_h * job->out_w);
                }
            }
        }
    }
}

/* Of one filter, whose results may lie outside in part. */
static void transform_gradients_of_filter(const poet_winograd *job, const tiles *taken, const float *gy, float *copies,
                                          float *u)
{
    int32_t abreast;
    for (int32_t i = 0; i < taken->count; i += abreast) {
        const place *at = &taken->at[i];
        const int32_t inside = job->out_w - at->column;
        const float *upper = gy + at->image * job->out_image + at->row * job->out_w + at->column;
        const float *lower = at->row + 1 < job->out_h ? upper + job->out_w : zeros;
        abreast = taken->abreast[i];
        if (abreast * TILE > inside) {
            copy_padded(upper, inside, 0, abreast * TILE, copies);
            copy_padded(lower, lower == zeros ? 0 : inside, 0, abreast * TILE, copies + WIDEST);
            transform_gradients(copies, copies + WIDEST, abreast, u);
        } else {
            transform_gradients(upper, lower, abreast, u);
        }
        u += abreast * BLOCK * PLACES;
    }
}

/* Of four filters; beyond the last one they repeat it. */
__attribute__((noinline)) static void transform_gradients_of_filters(const poet_winograd *job, const tiles *taken,
                                                                     int32_t filters, const float *gy, float *copies,
                                                                     float *u)
{
    for (int32_t i = 0; i < BLOCK; i++) {
        transform_gradients_of_filter(job, taken, gy + least(i, filters - 1) * job->out_h * job->out_w, copies,
                                      u + i * PLACES);
    }
}

/* In blocks of four channels, the last of which zeros fill. */
static void transform_blocks(const poet_winograd *job, const tiles *taken, int32_t channels, const float *x,
                             float *copies, float *v)
{
    for (int32_t channel = 0; channel < channels; channel += BLOCK) {
        if (channels - channel < BLOCK) {
            poet_clear(v, U_FLOATS);
        }
        transform_tiles(job, taken, 0, taken->count, least(channels - channel, BLOCK), x, copies, v, BLOCK * PLACES,
                        PLACES);
        x += BLOCK * job->h * job->w;
        v += U_FLOATS;
    }
}

/* Of four filters and up to eight channels. */
static void add_products(int32_t count, int32_t filters, int32_t channels, const float *u, const float *v, float *m,
                         int32_t gw_filter, float *gw)
{
    for (int32_t channel = 0; channel < channels; channel += BLOCK) {
        multiply_places(u, v, count, m);
        for (int32_t filter = 0; filter < filters; filter++) {
            add_gradients(m + filter * BLOCK, least(channels - channel, BLOCK),
                          gw + filter * gw_filter + channel * KERNEL * KERNEL);
        }
        v += U_FLOATS;
    }
}

void poet_winograd_add_weight_gradient(const poet_winograd *job, const float *gy, const float *x, float *workspace,
                                       float *gw)
{
    float *v = workspace;
    float *u = v + V_FLOATS;
    float *m = u + U_FLOATS;
    const int32_t all = count_tiles(job);
    for (int32_t tile = 0; tile < all; tile += TILES) {
        tiles taken;
        take_tiles(job, tile, all, &taken);
        for (int32_t channel = 0; channel < job->channels; channel += POET_WINOGRAD_PART) {
            const int32_t channels = least(job->channels - channel, POET_WINOGRAD_PART);
            transform_blocks(job, &taken, channels, x + channel * job->h * job->w, m, v);
            for (int32_t filter = 0; filter < job->filters; filter += BLOCK) {
                const int32_t filters = least(job->filters - filter, BLOCK);
                transform_gradients_of_filters(job, &taken, filters, gy + filter * job->out_h * job->out_w, m, u);
                add_products(taken.count, filters, channels, u, v, m, job->weights_filter,
                             gw + filter * job->weights_filter + channel * job->weights_channel);
            }
        }
    }
}
