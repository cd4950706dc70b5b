/* SPDX-License-Identifier: Apache-2.0 */
/* What no macro tells (rounding.h has what one does): clang has none for contraction, and a unit that flushes
 * subnormals or rounds another way was set so at run time, by a start file that -Ofast links for instance. So it is
 * computed, under the same flags as the operators. */
#include "poet/operator.h"

#include "mathematics.h"

/* A number that the compiler cannot compute with. */
static float hidden(float x)
{
    volatile float held = x;
    return held;
}

__attribute__((cold)) bool poet_arithmetic_is_ieee(void)
{
    const float one = hidden(1.0f);
    const float root = hidden(0x1.001p0f);           /* its square is 0x1.002001p0 before it is rounded */
    const float more_than_half = hidden(0x1.8p-24f); /* of the last place of 1 */
    const float smallest = hidden(0x1p-126f);        /* that is normal */
    const float half = hidden(0x1p-127f);
    const float nan = hidden(poet_from_bits(0x7FC00000));
    const float zero = hidden(-0.0f) + 0.0f;
    int32_t zero_bits;
    memcpy(&zero_bits, &zero, sizeof zero_bits);
    return root * root - 0x1.002p0f == 0.0f && (one + more_than_half) - one == 0x1p-23f &&
           (-one - more_than_half) + one == -0x1p-23f && hidden(5.0f) / 3.0f == 0x1.aaaaaap0f && zero_bits == 0 &&
           nan != nan && smallest * 0.5f == half && half * 2.0f == smallest;
}
