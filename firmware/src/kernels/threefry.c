/* SPDX-License-Identifier: Apache-2.0 */
#include "threefry.h"

#define PARITY 0x1bd11bdau

static inline uint32_t rotated(uint32_t x, uint32_t by)
{
    return x << by | x >> (32u - by);
}

static inline void mix(uint32_t *x, uint32_t *y, uint32_t by)
{
    *x += *y;
    *y = rotated(*y, by) ^ *x;
}

void poet_threefry(const uint32_t key[2], const uint32_t counter[2], uint32_t out[2])
{
    uint32_t now = key[1];
    uint32_t next = PARITY ^ key[0] ^ key[1];
    uint32_t last = key[0];
    uint32_t x = counter[0] + key[0];
    uint32_t y = counter[1] + key[1];
    for (uint32_t four = 1; four <= 5u; four++) {
        if (four % 2u == 1u) {
            mix(&x, &y, 13);
            mix(&x, &y, 15);
            mix(&x, &y, 26);
            mix(&x, &y, 6);
        } else {
            mix(&x, &y, 17);
            mix(&x, &y, 29);
            mix(&x, &y, 16);
            mix(&x, &y, 24);
        }
        x += now;
        y += next + four;
        const uint32_t used = now;
        now = next;
        next = last;
        last = used;
    }
    out[0] = x;
    out[1] = y;
}
