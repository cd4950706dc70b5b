/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix product y[m,n] = sum over k of a[m,k] * c[k,n], each factor stored either way round. */
#ifndef POET_KERNELS_PRODUCT_H
#define POET_KERNELS_PRODUCT_H

#include <stdint.h>

#include "rounding.h"

/* Distances in floats. */
typedef struct poet_product {
    int32_t m, k, n;
    int32_t a_m, a_k;
    int32_t c_k, c_n;
    int32_t y_m;
} poet_product;

/* One of the two below, as poet_gemm_way. */
typedef void poet_product_way(const poet_product *product, const float *a, const float *c, float *y);

void poet_product_compute(const poet_product *product, const float *a, const float *c, float *y);

/* Adds to what is in y: k in several parts, one after the other, gives the bits of k as a whole. */
void poet_product_add(const poet_product *product, const float *a, const float *c, float *y);

/* The same for one product an element, k and c_n being 1, with a sum that may lie elsewhere: tiles take eight times as
 * long. */
void poet_outer_add(const poet_product *product, const float *a, const float *c, const float *sum, float *y);

#endif
