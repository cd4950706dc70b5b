/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between Nordic's chips, beside their registers.h and the serial line. */
#ifndef NORDIC_CHIP_H
#define NORDIC_CHIP_H

#include <stdbool.h>
#include <stdint.h>

/* What the chip wants before its clock: converter, cache, frequency. */
void chip_init(void);

/* Reads and clears the register of reset causes: else the next start would see them again. */
uint32_t chip_take_reset_causes(void);
const char *chip_cause(uint32_t causes);

bool chip_has_converter_on(void);

#endif
