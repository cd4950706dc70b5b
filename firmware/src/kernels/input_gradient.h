/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a convolution by its input: gx[n,c] = sum over k, r, s of gy[n,k] * w[k,c,r,s]; of all
 * output channels, or of some at a time. */
#ifndef POET_KERNELS_INPUT_GRADIENT_H
#define POET_KERNELS_INPUT_GRADIENT_H

#include "conv.h"

/* For at most so many output channels at a time; POET_E_ARGUMENT if it is too much. */
int poet_input_gradient_workspace(const poet_conv *conv, int32_t channels, uint32_t *bytes);

/* Of an operator that computes it as a whole; gives the status that `conv` was read with, or that of its workspace. */
int poet_input_gradient_sizes(int status, const poet_conv *conv, poet_sizes *sizes);

void poet_input_gradient(const poet_conv *conv, const float *gy, const float *w, float *workspace, float *gx);

/* The share of `count` output channels from `first` on, whose weights are `w`. The first channel of a group begins gx
 * anew; a later one adds to what is there: channels in ascending order give the bits of all of them at once. */
void poet_input_gradient_part(const poet_conv *conv, int32_t first, int32_t count, const float *gy, const float *w,
                              float *workspace, float *gx);

/* The same, but all channels add to what is there. */
void poet_input_gradient_add(const poet_conv *conv, int32_t first, int32_t count, const float *gy, const float *w,
                             float *workspace, float *gx);

#endif
