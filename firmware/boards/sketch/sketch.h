/* SPDX-License-Identifier: Apache-2.0 */
/* What a sketch's program has beside the firmware's: plans that arrive as data, and what it says of an unknown board.
 */
#ifndef POET_SKETCH_H
#define POET_SKETCH_H

#include "poet/server.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What `load` and `about` have to say where poet_arithmetic_is_ieee is false. */
#define POET_OTHER_ARITHMETIC                                                                                     \
    "this sketch computes otherwise than IEEE 754 asks (subnormal numbers become 0, or sums are fused): compile " \
    "without -ffast-math; on an RP2040 with Arduino's Mbed core, whose floats are not the boot ROM's"

/* What `hello` calls the board. The name is kept. */
void poet_sketch_name(const char *name);

#ifdef __cplusplus
}
#endif

#endif
