/* SPDX-License-Identifier: Apache-2.0 */
/* Whether f32 numbers are finite, seen from their bits: as quick on a core without floating point. */
#ifndef POET_FINITE_H
#define POET_FINITE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define POET_NOT_FINITE UINT32_C(0x80000000)

/* Has the bit POET_NOT_FINITE where all bits of the exponent are ones: the number is infinite, or none. Of many numbers
 * these words can be or-ed together. */
static inline uint32_t poet_finite_mark(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (bits & UINT32_C(0x7f800000)) + UINT32_C(0x00800000);
}

static inline bool poet_is_finite(float number)
{
    return (poet_finite_mark(number) & POET_NOT_FINITE) == 0;
}

#ifdef __cplusplus
}
#endif

#endif
