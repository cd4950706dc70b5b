/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix product as everybody writes it first: what the kernels are held against. */
#include <stdint.h>

void triple_loop(const float *a, const float *b, float *y, int32_t m, int32_t k, int32_t n)
{
    for (int32_t i = 0; i < m; i++) {
        for (int32_t j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int32_t l = 0; l < k; l++) {
                sum += a[i * k + l] * b[l * n + j];
            }
            y[i * n + j] = sum;
        }
    }
}
