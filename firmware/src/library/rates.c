/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/rates.h"

#include "../kernels/share.h"

/* sin(x * pi / 4)^2: Taylor's series of (1 - cos y) / 2. */
static poet_share sine_squared(poet_share x)
{
    /* (pi / 2)^2 / (n * (n + 1)) of 2^32, for n = 15, 13, ... 3 */
    static const uint32_t factors[] = {44155863u, 58227511u, 80283387u, 117748967u, 189239411u, 353246901u, 883117253u};
    const poet_share square = poet_share_multiply(x, x);
    poet_share sum = UINT64_MAX;
    for (uint32_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        sum = ~poet_share_multiply(poet_share_multiply(square, (poet_share)factors[i] << 32), sum);
    }
    return poet_share_multiply(poet_share_multiply(square, UINT64_C(11378879155978302162)), sum); /* (pi / 4)^2 */
}

float poet_cosine(float rate, uint32_t t, uint32_t warm, uint32_t total)
{
    if (t < warm) {
        return poet_share_number(rate, poet_share_of(t + 1u, warm));
    }
    if (t >= total) {
        return 0.0f;
    }
    const poet_share left = poet_share_of(total - t, total - warm);
    const poet_share share = left >> 63 == 0 ? sine_squared(left << 1) : ~sine_squared(~left << 1);
    return poet_share_number(rate, share);
}
