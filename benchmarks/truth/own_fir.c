/* SPDX-License-Identifier: Apache-2.0 */
/* A filter as the published one is written: the newest sample's place in a ring, walked backwards and wrapped, the sum
 * kept in memory. One call filters one sample. */
#include <stdint.h>

#define FIR(name, type)                                                               \
    void name(const type *taps, type *ring, int32_t count, int32_t newest, type *sum) \
    {                                                                                 \
        int32_t place = newest;                                                       \
        *sum = 0;                                                                     \
        for (int32_t i = 0; i < count; i++) {                                         \
            *sum = (type)(*sum + taps[i] * ring[place]);                              \
            place--;                                                                  \
            if (place < 0) {                                                          \
                place = count - 1;                                                    \
            }                                                                         \
        }                                                                             \
    }

FIR(fir_int16, int16_t)
FIR(fir_int32, int32_t)
FIR(fir_float, float)
