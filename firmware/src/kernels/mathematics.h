/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions in plain f32 arithmetic: the libraries' own differ between host and boards in the last bit. */
#ifndef POET_KERNELS_MATHEMATICS_H
#define POET_KERNELS_MATHEMATICS_H

#include <stdint.h>
#include <string.h>

#include "rounding.h"

/* Within 2 units in the last place; 0 below -103.98, infinity above 88.73. */
float poet_exp(float x);

/* Within 2 units in the last place; -infinity at 0, NaN below. */
float poet_log(float x);

/* Correctly rounded, as IEEE 754 asks; NaN below 0. Where the core has an instruction for it, that gives the same. */
#if defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
static inline float poet_sqrt(float x)
{
    float root;
    __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
    return root;
}
#else
float poet_sqrt(float x);
#endif

/* Phi(x) = (1 + erf(x / sqrt 2)) / 2, within 1e-5 relative also far out on the left. */
float poet_normal_distribution(float x);

/* Within 4 units in the last place. */
float poet_hyperbolic_tangent(float x);

/* 1 / (1 + exp(-x)), within 4 units in the last place. */
float poet_logistic(float x);

/* The same of n numbers; y may be x. */
void poet_exp_each(float *y, const float *x, int32_t n);
void poet_hyperbolic_tangent_each(float *y, const float *x, int32_t n);
void poet_logistic_each(float *y, const float *x, int32_t n);

/* log(1 + x), within 4 units in the last place also near 0; -infinity at -1, NaN below. */
float poet_log_one_plus(float x);

/* exp(x) - 1, within 4 units in the last place also near 0. */
float poet_exp_minus_one(float x);

/* Within 2e-7 up to 50,000 either way; beyond it, of which f32 knows less than a fortieth of a turn, NaN. */
float poet_sin(float x);
float poet_cos(float x);

/* The whole number below, and the nearest one, ties to even. */
float poet_floor(float x);
float poet_round(float x);

static inline float poet_greatest(const float *x, int32_t count)
{
    float most = x[0];
    for (int32_t i = 1; i < count; i++) {
        most = x[i] > most ? x[i] : most;
    }
    return most;
}

/* A parameter that stands for a fraction, in units of 1e-9. */
static inline float poet_from_nano(int32_t nano)
{
    return (float)nano / 1e9f;
}

/* A parameter that is the bits of a f32, for numbers of any size. */
static inline float poet_from_bits(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
