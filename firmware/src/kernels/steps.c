/* SPDX-License-Identifier: Apache-2.0 */
/* A function and a loop for each step. The loop reads four elements before it writes one: so the compiler need not ask
 * whether y is a or b. */
#include "steps.h"

#include <stdbool.h>

#include "bits.h"
#include "mathematics.h"
#include "shape.h"

#if POET_SOFT_FLOATS && defined(__OPTIMIZE_SIZE__)
#define FOURS false
#else
#define FOURS true
#endif

typedef int32_t __attribute__((may_alias)) whole;
typedef int16_t __attribute__((may_alias)) narrow;

static inline int at_most_zero(uint32_t bits)
{
    return (int32_t)bits <= 0 && bits <= (POET_MINUS_ZERO | POET_INFINITY);
}

/* So written, a NaN stays one. */
static inline float clamped(float x, float low, float high)
{
    const float least = x < low ? low : x;
    return least > high ? high : least;
}

static inline float silu_slope(float x)
{
    const float s = poet_logistic(x);
    return s * (1.0f + x * (1.0f - s));
}

static inline float gelu_slope(float x)
{
    const float distribution = poet_normal_distribution(x);
    const float density = 0.398942280401432678f * poet_exp(-0.5f * x * x);
    return distribution + x * density;
}

#define NONE(at, i) 0
#define READ(at, i) at[i]
#define NUMBER(at, i) poet_from_bits(at[i])

/* Alone, of one input or two. */
static const uint8_t last_input[] = {1};
#define ALONE(name, last)                                                                                      \
    int poet_##name##_step_run(const poet_op_args *args)                                                       \
    {                                                                                                          \
        name##_each(args->outputs[0], args->inputs[0], args->inputs[last], args->params + 1, args->params[0]); \
        return POET_OK;                                                                                        \
    }

/* `from` is the type of a, b and of y so far, `to` that of y; Z, T, P and Q read what the step has beside x. Functions
 * take much longer than their loops, and are not in it four times. */
#define LOOP(name, from, to, value, UNROLLED, Z, T, P, Q)                                                          \
    static inline to name##_of(from x, from z, from t, float p, float q)                                           \
    {                                                                                                              \
        (void)z, (void)t, (void)p, (void)q;                                                                        \
        return value;                                                                                              \
    }                                                                                                              \
    static void name##_each(float *results, const float *first, const float *second, const int32_t *n_, int32_t n) \
    {                                                                                                              \
        const from *a = (const void *)first, *b = (const void *)second;                                            \
        to *y = (void *)results;                                                                                   \
        const float p = P(n_, 0), q = Q(n_, 1);                                                                    \
        (void)n_;                                                                                                  \
        const to *const end = y + n, *const ones = UNROLLED ? y + (n & 3) : end;                                   \
        for (; y != ones; y++, a++, b++) {                                                                         \
            *y = name##_of(*a, Z(b, 0), T(y, 0), p, q);                                                            \
        }                                                                                                          \
        for (; UNROLLED && y != end; y += 4, a += 4, b += 4) {                                                     \
            const from x0 = a[0], x1 = a[1], x2 = a[2], x3 = a[3];                                                 \
            const from z0 = Z(b, 0), z1 = Z(b, 1), z2 = Z(b, 2), z3 = Z(b, 3);                                     \
            const from t0 = T(y, 0), t1 = T(y, 1), t2 = T(y, 2), t3 = T(y, 3);                                     \
            y[0] = name##_of(x0, z0, t0, p, q), y[1] = name##_of(x1, z1, t1, p, q);                                \
            y[2] = name##_of(x2, z2, t2, p, q), y[3] = name##_of(x3, z3, t3, p, q);                                \
        }                                                                                                          \
    }                                                                                                              \
    ALONE(name, Z(last_input, 0))

#define LOOP_unary(name, value) LOOP(name, float, float, value, FOURS, NONE, NONE, NONE, NONE)
#define LOOP_unary_1(name, value) LOOP(name, float, float, value, FOURS, NONE, NONE, NUMBER, NONE)
#define LOOP_unary_2(name, value) LOOP(name, float, float, value, FOURS, NONE, NONE, NUMBER, NUMBER)
#define LOOP_binary(name, value) LOOP(name, float, float, value, FOURS, READ, NONE, NONE, NONE)
#define LOOP_binary_1(name, value) LOOP(name, float, float, value, FOURS, READ, NONE, NUMBER, NONE)
#define LOOP_binary_2(name, value) LOOP(name, float, float, value, FOURS, READ, NONE, NUMBER, NUMBER)
#define LOOP_ternary(name, value) LOOP(name, float, float, value, FOURS, READ, READ, NONE, NONE)
#define LOOP_bits(name, value) LOOP(name, poet_bits, poet_bits, value, FOURS, NONE, NONE, NONE, NONE)
#define LOOP_paired(name, value) LOOP(name, poet_bits, poet_bits, value, FOURS, READ, NONE, NONE, NONE)
#define LOOP_integer(name, value) LOOP(name, whole, float, value, FOURS, NONE, NONE, NONE, NONE)
#define LOOP_narrow(name, value) LOOP(name, narrow, float, value, FOURS, NONE, NONE, NONE, NONE)
#define LOOP_function(name, value) LOOP(name, float, float, value, false, NONE, NONE, NONE, NONE)
#define LOOP_function_1(name, value) LOOP(name, float, float, value, false, NONE, NONE, NUMBER, NONE)
#define LOOP_derivative(name, value) LOOP(name, float, float, value, false, READ, NONE, NONE, NONE)
#define LOOP_each(name, value)                                                                           \
    static void name##_each(float *y, const float *a, const float *b, const int32_t *numbers, int32_t n) \
    {                                                                                                    \
        (void)b, (void)numbers;                                                                          \
        value(y, a, n);                                                                                  \
    }                                                                                                    \
    ALONE(name, 0)
#define LOOP_own(name, value)
#define POET_STEP(code, NAME, name, kind, flops, value) LOOP_##kind(name, (value))
#include "poet/steps.def"
#undef POET_STEP

/* How the step is run, and what it reads: places, numbers, whether y. */
#define ROW_unary(name) name##_each, 1, 0, 0
#define ROW_unary_1(name) name##_each, 1, 1, 0
#define ROW_unary_2(name) name##_each, 1, 2, 0
#define ROW_binary(name) name##_each, 2, 0, 0
#define ROW_binary_1(name) name##_each, 2, 1, 0
#define ROW_binary_2(name) name##_each, 2, 2, 0
#define ROW_ternary(name) name##_each, 2, 0, 1
#define ROW_bits(name) ROW_unary(name)
#define ROW_paired(name) ROW_binary(name)
#define ROW_integer(name) ROW_unary(name)
#define ROW_narrow(name) ROW_unary(name)
#define ROW_function(name) ROW_unary(name)
#define ROW_function_1(name) ROW_unary_1(name)
#define ROW_derivative(name) ROW_binary(name)
#define ROW_each(name) ROW_unary(name)
#define ROW_own(name) ROW_own_##name
#define ROW_own_spread NULL, 1, 2, 0
#define ROW_own_sum NULL, 1, 1, 0
#define ROW(...) {__VA_ARGS__}
#define POET_STEP(code, NAME, name, kind, flops, value) const poet_step poet_##name##_step = ROW(ROW_##kind(name));
#include "poet/steps.def"
#undef POET_STEP

#define POET_STEP(code, NAME, name, kind, flops, value) \
    extern const poet_step *const poet_##name##_step_named POET_OPTIONAL;
#include "poet/steps.def"
#undef POET_STEP

const poet_step *const *const poet_steps_named[POET_STEP_CODES] = {
#define POET_STEP(code, NAME, name, kind, flops, value) [code] = &poet_##name##_step_named,
#include "poet/steps.def"
#undef POET_STEP
};

int poet_step_sizes_1(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("a>a", params, sizes);
}

int poet_step_sizes_2(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("a,a>a", params, sizes);
}
