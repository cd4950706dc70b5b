/* SPDX-License-Identifier: Apache-2.0 */
#include "mathematics.h"

#include <string.h>

/* ln 2 in two parts: the first has few enough bits that its product with an exponent is exact. */
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^exponent, for a normal result. */
static float power_of_two(int32_t exponent)
{
    return float_of((uint32_t)(exponent + 127) << 23);
}

/* exp x = 2^k exp r with |r| <= ln 2 / 2, and a polynomial for exp r (Cephes' expf coefficients). */
static inline float exp_of(float x)
{
    if (x != x) {
        return x;
    }
    if (x > 88.73f) {
        return float_of(0x7f800000u);
    }
    if (x < -103.98f) {
        return 0.0f;
    }
    const float scaled = x * 1.44269504088896341f;
    const int32_t k = (int32_t)(scaled < 0.0f ? scaled - 0.5f : scaled + 0.5f);
    const float kf = (float)k;
    const float r = (x - kf * LN2_HIGH) - kf * LN2_LOW;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const float y = (p * r * r + r) + 1.0f;
    /* in two halves, because 2^k itself may be too large or subnormal */
    return y * power_of_two(k / 2) * power_of_two(k - k / 2);
}

float poet_exp(float x)
{
    return exp_of(x);
}

/* log x = k ln 2 + log m with sqrt(1/2) <= m < sqrt 2, and a polynomial for log m (Cephes' logf coefficients). */
float poet_log(float x)
{
    if (x != x || bits_of(x) == 0x7f800000u) {
        return x;
    }
    if (x <= 0.0f) {
        return float_of(x == 0.0f ? 0xff800000u : 0x7fc00000u);
    }
    int32_t k = 0;
    if (x < 1.17549435e-38f) { /* subnormal */
        x = x * 8388608.0f;
        k = -23;
    }
    const uint32_t bits = bits_of(x);
    k += (int32_t)(bits >> 23) - 126;
    float m = float_of((bits & 0x007fffffu) | 0x3f000000u); /* in [1/2, 1) */
    if (m < 0.707106781186547524f) {
        k -= 1;
        m = m + m;
    }
    m = m - 1.0f;
    const float z = m * m;
    static const float factors[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                    -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                    2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
    float p = factors[0];
    for (uint32_t i = 1; i < sizeof factors / sizeof *factors; i++) {
        p = p * m + factors[i];
    }
    float y = p * m * z;
    const float kf = (float)k;
    y = y + kf * LN2_LOW;
    y = y - 0.5f * z;
    return (m + y) + kf * LN2_HIGH;
}

#if !(defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4))
/* Digit by digit on integers: the root of a 48-bit number has 24 bits, and the remainder says how to round. */
float poet_sqrt(float x)
{
    if (x != x || x == 0.0f || bits_of(x) == 0x7f800000u) {
        return x;
    }
    if (x < 0.0f) {
        return float_of(0x7fc00000u);
    }
    int32_t exponent = 0;
    if (x < 1.17549435e-38f) { /* subnormal */
        x = x * 16777216.0f;
        exponent = -24;
    }
    const uint32_t bits = bits_of(x);
    exponent += (int32_t)(bits >> 23) - 127;
    uint32_t mantissa = (bits & 0x007fffffu) | 0x00800000u;
    if (exponent & 1) { /* also for negative ones: two's complement */
        mantissa <<= 1;
        exponent -= 1;
    }
    /* sqrt(mantissa * 2^23), in [2^23, 2^24) */
    uint32_t root = 0;
    uint32_t remainder = 0;
    const uint64_t digits = (uint64_t)mantissa << 23;
    for (int32_t place = 46; place >= 0; place -= 2) {
        remainder = (remainder << 2) | (uint32_t)((digits >> place) & 3u);
        root <<= 1;
        const uint32_t trial = (root << 1) | 1u;
        if (remainder >= trial) {
            remainder -= trial;
            root += 1;
        }
    }
    if (remainder > root) { /* beyond root + 1/2; a tie cannot happen */
        root += 1;
    }
    return float_of(((uint32_t)(exponent / 2 + 127) << 23) + (root - 0x00800000u));
}
#endif

/* With z = |x| / sqrt 2: up to 1 the Taylor series of erf z; beyond, the tail exp(-z^2) erfcx(z) / 2, where erfcx(z) /
 * t is a Chebyshev fit in t = 1 / (1 + z / 2), within 2e-8 relative. */
float poet_normal_distribution(float x)
{
    const float signed_z = x * 0.707106781186547524f;
    const float z = signed_z < 0.0f ? -signed_z : signed_z;
    if (z <= 1.0f) {
        const float square = z * z;
        float p = 1.4807192816e-8f;
        p = p * square - 1.6365844691e-7f;
        p = p * square + 1.6462114366e-6f;
        p = p * square - 1.4925650358e-5f;
        p = p * square + 1.2055332982e-4f;
        p = p * square - 8.5483270235e-4f;
        p = p * square + 5.2239776254e-3f;
        p = p * square - 2.6866170645e-2f;
        p = p * square + 1.1283791671e-1f;
        p = p * square - 3.7612638903e-1f;
        p = p * square + 1.1283791671f;
        return 0.5f + 0.5f * (p * signed_z);
    }
    const float t = 1.0f / (1.0f + 0.5f * z);
    float p = 9.235673331e-2f;
    p = p * t - 2.229166519e-1f;
    p = p * t + 7.835463579e-2f;
    p = p * t + 6.371262165e-2f;
    p = p * t + 1.777448976e-1f;
    p = p * t + 2.471925153e-1f;
    p = p * t + 2.820126066e-1f;
    p = p * t + 2.820997181e-1f;
    const float tail = 0.5f * poet_exp(-0.5f * x * x) * (p * t);
    return x < 0.0f ? tail : 1.0f - tail;
}

/* Up to 1/2 the Taylor series, beyond it 1 - 2 / (exp 2x + 1). */
static inline float hyperbolic_tangent_of(float x)
{
    const float magnitude = x < 0.0f ? -x : x;
    if (magnitude <= 0.5f) {
        const float z = x * x;
        float p = 5.9002744094e-4f;
        p = p * z - 1.4558343870e-3f;
        p = p * z + 3.5921280366e-3f;
        p = p * z - 8.8632355299e-3f;
        p = p * z + 2.1869488536e-2f;
        p = p * z - 5.3968253968e-2f;
        p = p * z + 1.3333333333e-1f;
        p = p * z - 3.3333333333e-1f;
        return x + x * z * p;
    }
    const float y = 1.0f - 2.0f / (exp_of(2.0f * magnitude) + 1.0f);
    return x < 0.0f ? -y : (x > 0.0f ? y : x);
}

static inline float logistic_of(float x)
{
    return 1.0f / (1.0f + exp_of(-x));
}

float poet_hyperbolic_tangent(float x)
{
    return hyperbolic_tangent_of(x);
}

float poet_logistic(float x)
{
    return logistic_of(x);
}

/* In one loop the constants stay in registers. */
#define EACH(name)                                               \
    void poet_##name##_each(float *y, const float *x, int32_t n) \
    {                                                            \
        for (; n > 0; n--) {                                     \
            *y++ = name##_of(*x++);                              \
        }                                                        \
    }
EACH(exp)
EACH(logistic)
EACH(hyperbolic_tangent)

/* 1 + x is rounded to u; log u is off by as much as u - 1 is from x, and the quotient of the two puts it right. */
float poet_log_one_plus(float x)
{
    const float u = 1.0f + x;
    if (u == 1.0f) {
        return x;
    }
    const float y = poet_log(u);
    return x > -1.0f && x < 1.0f ? y * (x / (u - 1.0f)) : y;
}

/* Up to 1/2 the Taylor series. */
float poet_exp_minus_one(float x)
{
    if (x < -0.5f || x > 0.5f || x != x) {
        return poet_exp(x) - 1.0f;
    }
    float p = 2.7557319224e-6f;
    p = p * x + 2.4801587302e-5f;
    p = p * x + 1.9841269841e-4f;
    p = p * x + 1.3888888889e-3f;
    p = p * x + 8.3333333333e-3f;
    p = p * x + 4.1666666667e-2f;
    p = p * x + 1.6666666667e-1f;
    p = p * x + 5.0000000000e-1f;
    return x + x * x * p;
}

/* Whole numbers are all that f32 holds from here on. */
#define ALL_WHOLE 8388608.0f

float poet_floor(float x)
{
    if (!(x > -ALL_WHOLE && x < ALL_WHOLE) || x == 0.0f) {
        return x;
    }
    const float nearer = (float)(int32_t)x;
    return nearer > x ? nearer - 1.0f : nearer;
}

float poet_round(float x)
{
    if (!(x > -ALL_WHOLE && x < ALL_WHOLE)) {
        return x;
    }
    const float below = poet_floor(x), rest = x - below;
    const int32_t odd = (int32_t)below & 1;
    const float nearest = rest > 0.5f || (rest == 0.5f && odd) ? below + 1.0f : below;
    return nearest == 0.0f ? x * 0.0f : nearest; /* with its sign */
}

/* sin(x + quarters * pi / 2): x less the nearest multiple of pi / 2, which is in three parts so that its products are
 * exact, and a polynomial for sine or cosine (Cephes' sinf and cosf coefficients). */
static float sine_of(float x, int32_t quarters)
{
    if (!(x >= -50000.0f && x <= 50000.0f)) {
        return float_of(0x7fc00000u);
    }
    const float k = poet_round(x * 0.636619772367581343f);
    const float r = ((x - k * 1.5703125f) - k * 4.83751296997e-4f) - k * 7.54978995489e-8f;
    const float z = r * r;
    quarters += (int32_t)k;
    float y;
    if (quarters & 1) {
        y = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
    } else {
        y = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    }
    return quarters & 2 ? -y : y;
}

float poet_sin(float x)
{
    return sine_of(x, 0);
}

float poet_cos(float x)
{
    return sine_of(x, 1);
}
