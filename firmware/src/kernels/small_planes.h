/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with 3x3 kernels and a padding of one on planes of 2x2: at each place four of the nine taps meet the
 * plane. So a place is a product over channels and four taps, whose columns are the images, read where they lie; of a
 * gradient by weights, a tap is a product over images and the places that it meets. No padded copy.
 *
 * The bits are those of gemm.h with zeros around the plane. What a tap beside the plane adds there is a zero, or no
 * number: it decides the sign of a sum of zeros at most, so that one number for all of them begins the sum. */
#ifndef POET_KERNELS_SMALL_PLANES_H
#define POET_KERNELS_SMALL_PLANES_H

#include <stdbool.h>

#include "conv.h"
#include "poet/operator.h"

/* Whether a convolution is computed so: one group, as many images and channels as a tile has columns. */
bool poet_small_planes_suits(const poet_conv *conv);

/* Of workspace for each filter, or each channel of an input gradient: what begins its sums. */
#define POET_SMALL_PLANES_BYTES 16        /* one a place */
#define POET_SMALL_PLANES_WEIGHT_BYTES 36 /* one a tap, for a weight gradient */

/* As those without `small_planes` in their names (convolution.h, input_gradient.h, weight_gradient.h), of `count`
 * filters. `way` is poet_gemm_multiply, or poet_gemm_add where they add to what is there. */
POET_OPTIONAL void poet_small_planes_convolution(const poet_conv *conv, poet_gemm_way *way, bool adds, int32_t count,
                                                 const float *x, const float *w, const float *bias, float *workspace,
                                                 float *y);

POET_OPTIONAL void poet_small_planes_input_gradient(const poet_conv *conv, poet_gemm_way *way, bool adds, int32_t count,
                                                    const float *gy, const float *w, float *workspace, float *gx);

POET_OPTIONAL void poet_small_planes_weight_gradient(const poet_conv *conv, int32_t count, const float *gy,
                                                     const float *x, float *workspace, float *gw);

#endif
