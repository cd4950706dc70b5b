/* SPDX-License-Identifier: Apache-2.0 */
#include "s8.h"

bool poet_is_s8(int32_t number)
{
    return number >= INT8_MIN && number <= INT8_MAX;
}

bool poet_range_s8_is_sound(const poet_range_s8 *range)
{
    return poet_is_s8(range->zero) && poet_is_s8(range->low) && poet_is_s8(range->high) && range->low <= range->high;
}

bool poet_is_scale(int32_t bits)
{
    return bits > 0 && bits < 0x7f800000;
}

#if !POET_S8_BY_FLOATS

int32_t poet_scaled_by_floats(int32_t sum, float scale)
{
    return poet_rounded((float)sum * scale);
}

#define MOST_DROPPED 5 /* of sums of 24 bits, which a float holds */

/* Of a scale of 2^-16 to 2^4. What is left out of `low`, of a sum and of the product itself is within the band. */
poet_scale_s8 poet_scale_s8_of(float scale)
{
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    const int32_t mantissa = (int32_t)((bits & 0x7fffffu) | 0x800000u);
    const int32_t shift = 138 - (int32_t)(bits >> 23);
    const int32_t dropped = shift > 22 ? shift - 22 : 0;
    if (shift < 8 || dropped > MOST_DROPPED) {
        return (poet_scale_s8){.scale = scale};
    }
    return (poet_scale_s8){
        .scale = scale,
        .high = mantissa >> (12 + dropped),
        .low = (mantissa >> dropped) & 0xfff,
        .shift = shift - dropped,
        .dropped = dropped,
        .band = dropped > 0 ? 1u << (8 + dropped) : 2u + (1u << shift >> 16),
    };
}

#endif
