/* SPDX-License-Identifier: Apache-2.0 */
/* For cores without a floating-point unit: the same IEEE 754 results as the compiler's library, at less than half its
 * cost, because an element is taken apart once for the four products it enters, and the general case alone is treated
 * here. Zeros, subnormals, infinities and NaNs, and whatever might become one, go to the library. */
#include "multiply_add.h"

#ifdef POET_MULTIPLY_ADD_IS_SOFT

#include <string.h>

#define SIGN 0x80000000u
#define NEVER_IN_RANGE (-1000) /* exponent of what is not a normal number: no product with it passes for one */

typedef struct factor {
    uint32_t high, low; /* of the 24-bit mantissa: 16 and 8 bits */
    int32_t exponent;   /* biased in one of the two factors of a product */
    uint32_t bits;
} factor;

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline void take_apart(float x, factor *f)
{
    f->bits = bits_of(x);
    f->high = ((f->bits >> 8) & 0x7fffu) | 0x8000u;
    f->low = f->bits & 0xffu;
    f->exponent = (int32_t)((f->bits << 1) >> 24);
    if ((uint32_t)f->exponent - 1u >= 254u) {
        f->exponent = NEVER_IN_RANGE;
    }
}

__attribute__((noinline)) static uint32_t by_library(uint32_t sum, uint32_t a, uint32_t b)
{
    const uint32_t infinity = 0xff000000u;
    const int zero = a << 1 == 0 || b << 1 == 0;
    /* A ReLU makes many zeros; only minus zeros add up to one. */
    if (zero && a << 1 < infinity && b << 1 < infinity) {
        return sum << 1 != 0 ? sum : sum & (a ^ b) & SIGN;
    }
    return bits_of(float_of(sum) + float_of(a) * float_of(b));
}

/* A mantissa has its leading one at bit 30 and 7 bits after the ones that are kept. */
#define HALF 0x40u /* of a unit in the last place */
#define LEADING 0x40000000u

/* Rounds to nearest, but a tie up; a carry out of the mantissa moves into the exponent. */
static inline uint32_t pack(uint32_t rounded, int32_t exponent, uint32_t sign)
{
    return (((uint32_t)(exponent - 1) << 23) + (rounded >> 7)) | sign;
}

static inline int is_tie(uint32_t rounded)
{
    return rounded << 25 == 0;
}

#define RARE(condition) __builtin_expect((condition) != 0, 0) /* moves what follows out of the way */
#define TO_EVEN(rounded) ((rounded) & ~0x80u)

/* A product whose kept bits end in a tie, if there is nothing below them. */
__attribute__((noinline)) static uint32_t round_tie(uint32_t product, uint32_t high, uint32_t below)
{
    return below << 24 == 0 && ((high >> 31) & high) == 0 ? TO_EVEN(product) : product;
}

/* The bits of sum + a * b, with both operations rounded. Inlined into the three below, once each: a call a product
 * costs a fifth of the speed. */
__attribute__((always_inline)) static inline uint32_t multiply_add(uint32_t sum, const factor *a, const factor *b)
{
    int32_t product_exponent = a->exponent + b->exponent;
    if (product_exponent < -255) {
        return by_library(sum, a->bits, b->bits);
    }
    /* the upper 32 of the product's 48 bits, in [2^30, 2^32); what lies below matters only to a tie */
    const uint32_t low = a->low * b->low;
    const uint32_t middle = a->high * b->low + a->low * b->high + (low >> 8);
    const uint32_t high = a->high * b->high + (middle >> 8);
    uint32_t product = high;
    if (high & SIGN) {
        product = high >> 1;
        product_exponent += 1;
    }
    product += HALF;
    if (RARE(is_tie(product))) {
        product = round_tie(product, high, low | middle);
    }
    const int32_t sum_exponent = (int32_t)((sum << 1) >> 24);
    if (RARE((uint32_t)product_exponent - 1u >= 252u) || RARE((uint32_t)sum_exponent - 1u >= 253u)) {
        if (sum << 1 == 0 && product_exponent > 0 && product_exponent < 253) {
            return pack(product, product_exponent, (a->bits ^ b->bits) & SIGN);
        }
        return by_library(sum, a->bits, b->bits);
    }
    if (RARE(product & SIGN)) {
        product >>= 1;
        product_exponent += 1;
    }
    product = (product >> 7) << 7;

    uint32_t mantissa = ((sum << 8) | SIGN) >> 1;
    uint32_t sign = sum & SIGN;
    const uint32_t opposite = (sum ^ a->bits ^ b->bits) & SIGN;
    int32_t exponent = sum_exponent;
    uint32_t addend = product;
    int32_t distance = sum_exponent - product_exponent;
    if (distance < 0) {
        addend = mantissa;
        mantissa = product;
        sign ^= opposite;
        exponent = product_exponent;
        distance = -distance;
    }
    if (distance > 7) { /* else nothing is shifted out */
        if (distance > 25) {
            addend = 0; /* less than half a unit in the last place, also below a power of two */
        } else {
            const uint32_t lost = addend << (32 - distance);
            addend = (addend >> distance) | (lost != 0);
        }
    } else {
        addend >>= distance;
    }
    if (opposite == 0) {
        mantissa += addend;
        if (mantissa & SIGN) {
            mantissa = (mantissa >> 1) | (mantissa & 1u);
            exponent += 1;
        }
    } else {
        mantissa -= addend;
        if (mantissa & SIGN) { /* equal exponents, and the addend was the larger one */
            mantissa = -mantissa;
            sign ^= SIGN;
        }
        if (mantissa < LEADING) {
            if (RARE(mantissa == 0)) {
                return 0;
            }
            do {
                mantissa <<= 1;
                exponent -= 1;
            } while (mantissa < LEADING);
            if (RARE(exponent < 1)) {
                return by_library(sum, a->bits, b->bits);
            }
        }
    }
    mantissa += HALF;
    if (RARE(is_tie(mantissa))) {
        mantissa = TO_EVEN(mantissa);
    }
    return pack(mantissa, exponent, sign);
}

void poet_multiply_add_4x4(float *sums, const float *const *a, ptrdiff_t a_at, const float *const *b, ptrdiff_t b_at)
{
    factor columns[POET_TILE];
    for (int32_t j = 0; j < POET_TILE; j++) {
        take_apart(b[j][b_at], &columns[j]);
    }
    for (int32_t i = 0; i < POET_TILE; i++) {
        factor row;
        take_apart(a[i][a_at], &row);
        row.exponent -= 127;
        for (int32_t j = 0; j < POET_TILE; j++) {
            *sums = float_of(multiply_add(bits_of(*sums), &row, &columns[j]));
            sums++;
        }
    }
}

float poet_multiply_add_1x1(float sum, float a, float b)
{
    factor row;
    factor column;
    take_apart(a, &row);
    take_apart(b, &column);
    row.exponent -= 127;
    return float_of(multiply_add(bits_of(sum), &row, &column));
}

void poet_multiply_add_1x4(float *sums, float a, float b0, float b1, float b2, float b3)
{
    const float columns[POET_TILE] = {b0, b1, b2, b3};
    factor row;
    take_apart(a, &row);
    row.exponent -= 127;
    for (int32_t j = 0; j < POET_TILE; j++) {
        factor column;
        take_apart(columns[j], &column);
        sums[j] = float_of(multiply_add(bits_of(sums[j]), &row, &column));
    }
}

#endif
