/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/rates.h"

#include "../kernels/rounding.h"

/* The double next to it as a fraction: with -fsingle-precision-constant, gcc takes 3.14 for a float. */
#define PI ((double)INT64_C(884279719003555) / (double)(INT64_C(1) << 48))

/* Taylor's series, within 1e-12 up to a quarter turn; the other quarter mirrors it. */
static double cosine_of_share(double share)
{
    const double x = PI * (share > 0.5 ? 1.0 - share : share);
    double term = 1.0;
    double sum = 1.0;
    for (int32_t i = 1; i <= 9; i++) {
        term = -term * x * x / (double)(2 * i * (2 * i - 1));
        sum = sum + term;
    }
    return share > 0.5 ? -sum : sum;
}

float poet_cosine(float rate, uint32_t t, uint32_t warm, uint32_t total)
{
    if (t < warm) {
        return (float)((double)rate * (double)(t + 1u) / (double)warm);
    }
    if (t >= total) {
        return 0.0f;
    }
    const double share = (double)(t - warm) / (double)(total - warm);
    return (float)((double)rate * (1.0 + cosine_of_share(share)) / 2.0);
}
