/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a convolution, shared by its forward pass and its two gradients. */
#ifndef POET_KERNELS_CONV_H
#define POET_KERNELS_CONV_H

#include "gemm.h"
#include "shape.h"
#include "winograd.h"

typedef struct poet_conv {
    int32_t n, groups, bias;
    int32_t in_channels, out_channels; /* of one group */
    int32_t taps;                      /* in_channels x r x s: multiply-accumulates of one output element */
    int in_place;                      /* a 1x1 kernel without padding, over rows of whole tiles: none is laid out */
    int winograd;                      /* computed as winograd.h says; else directly */
    int small_planes;                  /* directly, as small_planes.h says */
    int depthwise;                     /* directly, as depthwise.h says; else as gemm.h does */
    int32_t top;                       /* row of x at which the first window begins; negative: in the padding */
    int32_t y_plane;                   /* elements from a channel of y to the next */
    bool adds;                         /* its weights' gradient to what is there */
    poet_windows windows;
    uint32_t x_bytes, w_bytes, b_bytes, y_bytes;
} poet_conv;

/* Reads the parameters of one of the three convolution operators; POET_E_ARGUMENT if they make no sense,
 * POET_E_UNSUPPORTED if the program lacks the kernels for them. */
int poet_conv_read(const int32_t *params, poet_conv *conv);

/* Of an operator on some rows (rows.h), whose x and y are bands: what decides about the algorithm is the whole, which
 * the caller has looked at. */
int poet_conv_read_rows(const int32_t *params, poet_conv *conv);

/* As poet_gemm_multiply. Kernels of single channels that the program has are quicker. */
void poet_conv_multiply(const poet_gemm *gemm, const float *w, const float *start, const float *x, float *y);

/* How many of the output channels from `channel` on, before `end`, are of one group. */
int32_t poet_conv_channels_in_group(const poet_conv *conv, int32_t channel, int32_t end);

/* So many filters of it as Winograd's algorithm takes them: forward, and in its gradient by weights. */
poet_winograd poet_conv_winograd(const poet_conv *conv, int32_t count);

#endif
