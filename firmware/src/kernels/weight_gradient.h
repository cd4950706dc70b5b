/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a convolution by its weights, gw[k,c,r,s] = sum over n and positions of gy[n,k] * x[n,c], and by its
 * bias, gb[k] = sum over n and positions of gy[n,k]; some output channels at a time, each with the same bits. */
#ifndef POET_KERNELS_WEIGHT_GRADIENT_H
#define POET_KERNELS_WEIGHT_GRADIENT_H

#include "conv.h"

/* POET_E_ARGUMENT if it is too much. */
int poet_weight_gradient_workspace(const poet_conv *conv, uint32_t *bytes);

/* Of `count` output channels from `first` on; `gw` is that of `first`. */
void poet_weight_gradient(const poet_conv *conv, int32_t first, int32_t count, const float *gy, const float *x,
                          float *workspace, float *gw);

float poet_bias_gradient(const poet_conv *conv, int32_t channel, const float *gy, float sum);

#endif
