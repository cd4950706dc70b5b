/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's F(2x2, 3x3) for convolutions with 3x3 kernels and no stride: 16 products instead of 36 for each 2x2 tile
 * of results (Lavin and Gray, 2016). Inputs V = B d B^T, weights U = G g G^T, results Y = A^T M A, with M = U * V place
 * by place, summed over channels:
 *
 *     B = [1 0 -1 0;  0 1/2 1/2 0;  0 -1/2 1/2 0;  0 1 0 -1]
 *     G = [1 0 0;  1 1 1;  1 -1 1;  0 0 1]
 *     A^T = [1 1 1 0;  0 1 -1 -1]
 *
 * The halves stand with the inputs, because these are transformed least often.
 *
 * All targets give the same bits, because all sums have one order. Columns are transformed before rows. M sums over
 * eight channels at most; the results of such parts are added one after the other, to the bias, to what is there, or to
 * nothing. The gradient by weights is G^T S G with S = A gy A^T * V, summed over eight tiles at most, through one image
 * after the other; it is added to those of the tiles before. How many tiles or result channels are computed at a time
 * changes no bit. An infinity among the inputs may become NaN in all results of the tiles that read it. */
#ifndef POET_KERNELS_WINOGRAD_H
#define POET_KERNELS_WINOGRAD_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/operator.h"
#include "shape.h"

#define POET_WINOGRAD_PART 8      /* channels, or tiles of a weight gradient: decides bits */
#define POET_WINOGRAD_TILES 8     /* at a time */
#define POET_WINOGRAD_TOGETHER 4  /* filters: fewer take as long */
#define POET_WINOGRAD_BYTES 7168u /* of workspace, whatever the shape */

/* Whether n convolutions of these windows are computed so: plain ones with 3x3 kernels, eight or more channels and
 * filters, and planes of 4x4 or more. Fewer than eight tiles in all would use each transformed weight only once; also,
 * layers of a single 4x4 plane are wide, and eight of their output channels are a lot to read from a card at a time.
 * Where a plane has five rows or columns, three tiles cover them, and the direct kernel is quicker. */
bool poet_winograd_suits(int32_t n, int32_t groups, int32_t channels, int32_t filters, const poet_windows *windows);

/* A sum over channels, of so many images, for so many filters. */
typedef struct poet_winograd {
    int32_t n, channels, filters;
    int32_t h, w, image;             /* of a channel of the input; from one image to the next */
    int32_t top, left;               /* where the first tile's inputs begin */
    int32_t out_h, out_w, out_image; /* of results */
    int32_t weights_channel, weights_filter;
    bool turned; /* the weights, by 180 degrees */
    bool adds;   /* to what is in y */
} poet_winograd;

/* `bias`, if not NULL, is one for each filter. */
POET_OPTIONAL void poet_winograd_sum(const poet_winograd *job, const float *x, const float *w, const float *bias,
                                     float *workspace, float *y);

/* Adds to gw[filters][channels][3][3] what so many images give; `out_h`, `out_w` and `out_image` are those of gy. */
POET_OPTIONAL void poet_winograd_add_weight_gradient(const poet_winograd *job, const float *gy, const float *x,
                                                     float *workspace, float *gw);

#endif
