/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution (cross-correlation, as in deep learning): y[n,k] = b[k] + sum over c, r, s of x[n,c] * w[k,c,r,s]; some
 * output channels at a time, each with the same bits. */
#ifndef POET_KERNELS_CONVOLUTION_H
#define POET_KERNELS_CONVOLUTION_H

#include "conv.h"

/* POET_E_ARGUMENT if it is too much. */
int poet_convolution_workspace(const poet_conv *conv, uint32_t *bytes);

/* Of `count` output channels from `first` on; `w` holds their weights. Without a bias, `bias` is NULL. */
void poet_convolution(const poet_conv *conv, int32_t first, int32_t count, const float *x, const float *w,
                      const float *bias, float *workspace, float *y);

/* The same, added to what is in y: input channels in several parts, one after the other, give the bits of all of them
 * at once. */
void poet_convolution_add(const poet_conv *conv, int32_t first, int32_t count, const float *x, const float *w,
                          float *workspace, float *y);

#endif
