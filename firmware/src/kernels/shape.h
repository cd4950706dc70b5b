/* SPDX-License-Identifier: Apache-2.0 */
/* Checked sizes. Every operator's `sizes` goes through poet_count, so that no product of its parameters overflows. */
#ifndef POET_KERNELS_SHAPE_H
#define POET_KERNELS_SHAPE_H

#include "poet/operator.h"

#include "rounding.h"

/* Elements of a tensor a x b x c x d; 0 if an extent is not positive or the f32 tensor would exceed 1 GiB. */
uint32_t poet_count(int32_t a, int32_t b, int32_t c, int32_t d);

/* Tensors of f32 in words, inputs before outputs: "ab,c?b>ab,1" is an input of params[0] * params[1] elements, one of
 * params[1] where the flag params[2] is 1, an output like the first input, and one of 1 element. '=' instead of '>':
 * outputs are the last inputs, changed in place. */
int poet_sizes_read(const char *tensors, const int32_t *params, poet_sizes *sizes);

/* Bytes from the first to the last element of `rows` rows of each of so many planes, which lie `of` rows apart; 0 if an
 * extent is not positive or that would exceed 1 GiB. */
uint32_t poet_band_bytes(int32_t planes, int32_t of, int32_t rows, int32_t columns);

/* The second input holds indices below that bound. Here and below: gives the status that `sizes` was filled with. */
int poet_sizes_index(int status, int32_t bound, poet_sizes *sizes);

/* For a gradient with its operator's parameters and tensors: exchanges the first input and the output. */
int poet_sizes_reversed(int status, poet_sizes *sizes);

/* For an operator that adds to a sum so far, which is one more input, the third, as large as the output. */
int poet_sizes_accumulate(int status, poet_sizes *sizes);

/* Windows of r x s that slide over h x w: what convolution and pooling have in common. */
typedef struct poet_windows {
    int32_t h, w, r, s, sh, sw, ph, pw;
    int32_t oh, ow; /* positions */
} poet_windows;

/* Fills oh and ow from the rest. */
int poet_windows_place(poet_windows *windows);

/* Part of an axis' kernel that lies inside the input, for the window that starts at `start`. */
typedef struct poet_span {
    int32_t first, end;
} poet_span;

static inline poet_span poet_span_inside(int32_t start, int32_t kernel, int32_t extent)
{
    poet_span span;
    span.first = start < 0 ? -start : 0;
    span.end = start + kernel > extent ? extent - start : kernel;
    return span;
}

#endif
