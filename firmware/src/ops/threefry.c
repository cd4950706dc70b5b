#include "threefry.h"

#define PARITY 0x1bd11bdau

static inline uint32_t rotated(uint32_t x, uint32_t by)
{
    return x << by | x >> (32u - by);
}

static inline void mix(uint32_t out[2], uint32_t by)
{
    out[0] += out[1];
    out[1] = rotated(out[1], by) ^ out[0];
}

void poet_threefry(const uint32_t key[2], const uint32_t counter[2], uint32_t out[2])
{
    const uint32_t keys[] = {key[0], key[1], PARITY ^ key[0] ^ key[1]};
    out[0] = counter[0] + keys[0];
    out[1] = counter[1] + keys[1];
    for (uint32_t four = 1; four <= 5u; four++) {
        if (four % 2u == 1u) {
            mix(out, 13);
            mix(out, 15);
            mix(out, 26);
            mix(out, 6);
        } else {
            mix(out, 17);
            mix(out, 29);
            mix(out, 16);
            mix(out, 24);
        }
        out[0] += keys[four % 3u];
        out[1] += keys[(four + 1u) % 3u] + four;
    }
}
