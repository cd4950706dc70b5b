/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of int8, of frozen layers: q stands for (q - zero) * scale. Every result is
 *
 *     y = clamp(zero + round(f32(sum) * scale), low, high)
 *
 * with an exact sum, one product in f32, and a round to nearest, ties to even: so its bits are defined.
 */
#ifndef POET_KERNELS_S8_H
#define POET_KERNELS_S8_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "rounding.h"

#if defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
#define POET_S8_BY_FLOATS 1
#else
#define POET_S8_BY_FLOATS 0
#endif

/* What a result is moved and clamped to. */
typedef struct poet_range_s8 {
    int32_t zero, low, high;
} poet_range_s8;

bool poet_is_s8(int32_t number);
bool poet_range_s8_is_sound(const poet_range_s8 *range);

/* Whether the bits are those of a positive, finite number. */
bool poet_is_scale(int32_t bits);

/* To the nearest whole number, ties to even. Beyond +-512 only the side is right: it is clamped. */
static inline int32_t poet_rounded(float number)
{
    const float most = 512.0f;
    const float near = number > -most ? number < most ? number : most : -most;
    const float whole = 12582912.0f; /* 1.5 * 2^23: the last place of numbers about it is 1 */
    return (int32_t)(near + whole - whole);
}

/* A product may saturate, and a zero point of a byte must not turn its sign. */
static inline int32_t poet_saturated_sum(int32_t zero, int32_t rounded)
{
#if POET_S8_BY_FLOATS
    int32_t sum;
    __asm__("qadd %0, %1, %2" : "=r"(sum) : "r"(zero), "r"(rounded));
    return sum;
#else
    return zero + rounded;
#endif
}

static inline int8_t poet_clamped(const poet_range_s8 *range, int32_t rounded)
{
    const int32_t y = poet_saturated_sum(range->zero, rounded);
    return (int8_t)(y < range->low ? range->low : y > range->high ? range->high : y);
}

/* A scale, as it is multiplied with: by the floating-point unit, or taken apart, by integers. */
typedef struct poet_scale_s8 {
    float scale;
#if !POET_S8_BY_FLOATS
    int32_t high, low; /* 12 bits each of its mantissa */
    int32_t shift;     /* of the product; 0: the floats of the compiler compute every product */
    int32_t dropped;   /* bits of a sum that `low` is not multiplied with */
    uint32_t band;     /* around a tie, where rounding to f32 may decide */
#endif
} poet_scale_s8;

#if POET_S8_BY_FLOATS
static inline poet_scale_s8 poet_scale_s8_of(float scale)
{
    return (poet_scale_s8){scale};
}

static inline int32_t poet_scaled(int32_t sum, const poet_scale_s8 *by)
{
    float rounded;
    __asm__("vcvtr.s32.f32 %0, %1" : "=t"(rounded) : "t"((float)sum * by->scale)); /* saturates */
    int32_t y;
    memcpy(&y, &rounded, sizeof y);
    return y;
}
#else
poet_scale_s8 poet_scale_s8_of(float scale);

int32_t poet_scaled_by_floats(int32_t sum, float scale);

/* Beyond this and its negative, and 2^dropped times as far, a result is clamped. It is the largest whose product fits.
 */
#define POET_MOST_SUM 523776

/* Two 32-bit products, which are off by less than the band. Beyond +-256 only the side is right. */
static inline int32_t poet_scaled(int32_t sum, const poet_scale_s8 *by)
{
    if (by->shift == 0) {
        return poet_scaled_by_floats(sum, by->scale);
    }
    const int32_t most = (int32_t)((uint32_t)POET_MOST_SUM << by->dropped);
    const int32_t near = sum > most ? most : sum < -most ? -most : sum;
    const int32_t product =
        near * by->high + (((near >> by->dropped) * by->low) >> (12 - by->dropped)) + (1 << (by->shift - 1));
    const uint32_t fraction = ((uint32_t)product + by->band) << (32 - by->shift);
    return fraction < by->band << (33 - by->shift) ? poet_scaled_by_floats(near, by->scale) : product >> by->shift;
}
#endif

/* A ReLU's zeros, about half of its results, need no product. */
static inline int8_t poet_result_s8(int32_t sum, const poet_scale_s8 *by, const poet_range_s8 *range)
{
    return sum <= 0 && range->low >= range->zero ? (int8_t)range->low : poet_clamped(range, poet_scaled(sum, by));
}

/* Sums are exact modulo 2^32; a planner says where they stay within 32 bits. */
static inline int32_t poet_wrapped_sum(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

#endif
