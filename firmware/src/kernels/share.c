/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include "rounding.h"

poet_share poet_share_of(uint32_t a, uint32_t b)
{
    poet_share share = 0;
    uint64_t rest = a;
    for (int32_t i = 0; i < 64; i++) {
        rest <<= 1;
        share <<= 1;
        if (rest >= b) {
            rest -= b;
            share |= 1u;
        }
    }
    return a < b ? share : UINT64_MAX;
}

poet_share poet_share_multiply(poet_share a, poet_share b)
{
    const uint64_t high_a = a >> 32, low_a = (uint32_t)a, high_b = b >> 32, low_b = (uint32_t)b;
    const uint64_t first = high_a * low_b + (low_a * low_b >> 32);
    const uint64_t second = low_a * high_b + (uint32_t)first;
    return high_a * high_b + (first >> 32) + (second >> 32);
}

float poet_share_number(float unit, poet_share share)
{
    for (; share != 0 && share >> 63 == 0; share <<= 1) {
        unit = unit * 0.5f;
    }
    const float low = (float)(uint32_t)(share >> 8) * 0x1p-56f;
    return unit * ((float)(uint32_t)(share >> 40) * 0x1p-24f) + unit * low;
}
