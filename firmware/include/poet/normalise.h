/* SPDX-License-Identifier: Apache-2.0 */
/* Samples that are kept as small integers, and become f32 where they are used: y = (q - shift) * scale, a difference
 * and a product, each rounded, with the same bits on every board and on the host (docs/SPEC.md, section 8).
 *
 *     poet_normalise(POET_NUMBER_U8, 128.0f, 1.0f / 128.0f, pixels, 64, poet_input(&trainer, 0));
 */
#ifndef POET_NORMALISE_H
#define POET_NORMALISE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum poet_number {
    POET_NUMBER_WORD = 0, /* four bytes that stay as they are: f32, labels */
    POET_NUMBER_U8 = 1,
    POET_NUMBER_I8 = 2,
    POET_NUMBER_I16 = 3 /* little-endian, at any address */
} poet_number;

/* Of one number; 0 for a type that there is not. */
uint32_t poet_number_bytes(uint32_t type);

/* `count` numbers of a type to as many of four bytes each; shift and scale say nothing about words. `to` need not be
 * aligned. */
void poet_normalise(poet_number type, float shift, float scale, const void *numbers, uint32_t count, void *to);

#ifdef __cplusplus
}
#endif

#endif
