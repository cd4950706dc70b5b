/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions with 3x3 kernels, read from where their inputs lie: no padded copy, no workspace. Each result
 * is one running sum in the order of the taps, zeros around the plane included, so that it has the bits of gemm.h. */
#ifndef POET_KERNELS_DEPTHWISE_H
#define POET_KERNELS_DEPTHWISE_H

#include <stdbool.h>

#include "conv.h"
#include "poet/operator.h"

#define POET_DEPTHWISE_COLUMNS 3 /* of results at a time: few enough for registers; 3, 6, 12, 24, 48 are multiples */

/* Whether a convolution is computed so: one channel in and out of each group, padding of one, stride 1, or stride 2
 * over even extents, and three results or more in a row. */
bool poet_depthwise_suits(const poet_conv *conv);

/* As those without `depthwise` in their names (convolution.h, input_gradient.h, weight_gradient.h). */
POET_OPTIONAL void poet_depthwise_convolution(const poet_conv *conv, bool adds, int32_t first, int32_t count,
                                              const float *x, const float *w, const float *bias, float *y);

POET_OPTIONAL void poet_depthwise_input_gradient(const poet_conv *conv, bool adds, int32_t first, int32_t count,
                                                 const float *gy, const float *w, float *gx);

POET_OPTIONAL void poet_depthwise_weight_gradient(const poet_conv *conv, int32_t first, int32_t count, const float *gy,
                                                  const float *x, float *gw);

#endif
