/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of two tensors of int8: of f32 numbers, each product and sum rounded, as if both were dequantized. */
#include "../kernels/mathematics.h"
#include "../kernels/s8.h"
#include "../kernels/shape.h"

static poet_range_s8 range_of(const poet_add_s8_params *p)
{
    return (poet_range_s8){p->zero_y, p->low, p->high};
}

int poet_add_s8_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_add_s8_params *p = (const poet_add_s8_params *)params;
    const poet_range_s8 range = range_of(p);
    const uint32_t size = poet_count(p->size, 1, 1, 1);
    if (size == 0 || !poet_is_s8(p->zero_a) || !poet_is_s8(p->zero_b) || !poet_range_s8_is_sound(&range) ||
        !poet_is_scale(p->scale_a_f32) || !poet_is_scale(p->scale_b_f32) || !poet_is_scale(p->inverse_y_f32)) {
        return POET_E_ARGUMENT;
    }
    *sizes =
        (poet_sizes){.inputs = 2, .outputs = 1, .input_bytes = {size, size}, .output_bytes = {size}, .s8 = 1u | 2u};
    return POET_OK;
}

typedef struct sum_s8 {
    float scale_a, scale_b, inverse_y;
    int32_t fixed_a, fixed_b; /* both scales by inverse_y, times 2^shift */
    int32_t shift;            /* 0: floats compute every sum */
} sum_s8;

__attribute__((noinline)) static int32_t sum_by_floats(const sum_s8 *sum, int32_t a, int32_t b)
{
    const float scaled_a = (float)a * sum->scale_a;
    const float scaled_b = (float)b * sum->scale_b;
    return poet_rounded((scaled_a + scaled_b) * sum->inverse_y);
}

#if POET_S8_BY_FLOATS

static void take_apart(sum_s8 *sum)
{
    (void)sum;
}

static int32_t sum_of(const sum_s8 *sum, int32_t a, int32_t b)
{
    return sum_by_floats(sum, a, b);
}

#else

#define BAND 1024u /* around a tie: five roundings to f32, and of both fixed scales */
#define MOST_FIXED 4194304.0f
#define LEAST_SCALE 1e-30f
#define LEAST_SHIFT 12
#define MOST_SHIFT 29

/* The largest shift for which 255 times both scales fit 30 bits. Products with smaller scales may be subnormal, and so
 * are rounded otherwise. */
static void take_apart(sum_s8 *sum)
{
    const float a = sum->scale_a * sum->inverse_y;
    const float b = sum->scale_b * sum->inverse_y;
    float power = 1.0f;
    int32_t shift = 0;
    while (shift < MOST_SHIFT && (a + b) * power < MOST_FIXED / 2.0f) {
        power *= 2.0f;
        shift++;
    }
    if (shift >= LEAST_SHIFT && sum->scale_a > LEAST_SCALE && sum->scale_b > LEAST_SCALE) {
        sum->fixed_a = (int32_t)(a * power + 0.5f);
        sum->fixed_b = (int32_t)(b * power + 0.5f);
        sum->shift = shift;
    }
}

static int32_t sum_of(const sum_s8 *sum, int32_t a, int32_t b)
{
    if (sum->shift == 0) {
        return sum_by_floats(sum, a, b);
    }
    const int32_t fixed = a * sum->fixed_a + b * sum->fixed_b + (1 << (sum->shift - 1));
    const uint32_t fraction = ((uint32_t)fixed + BAND) << (32 - sum->shift);
    return fraction < BAND << (33 - sum->shift) ? sum_by_floats(sum, a, b) : fixed >> sum->shift;
}

#endif

int poet_add_s8_run(const poet_op_args *args)
{
    const poet_add_s8_params *p = (const poet_add_s8_params *)args->params;
    const poet_range_s8 range = range_of(p);
    sum_s8 sum = {
        poet_from_bits(p->scale_a_f32), poet_from_bits(p->scale_b_f32), poet_from_bits(p->inverse_y_f32), 0, 0, 0};
    take_apart(&sum);
    const int8_t *a = args->inputs[0];
    const int8_t *b = args->inputs[1];
    int8_t *y = args->outputs[0];
    for (int32_t i = 0; i < p->size; i++) {
        y[i] = poet_clamped(&range, sum_of(&sum, a[i] - p->zero_a, b[i] - p->zero_b));
    }
    return POET_OK;
}
