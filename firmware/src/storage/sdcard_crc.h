/* SPDX-License-Identifier: Apache-2.0 */
/* The two checksums of the SD bus (Physical Layer Simplified Specification 4.5). */
#ifndef POET_SDCARD_CRC_H
#define POET_SDCARD_CRC_H

#include <stdint.h>

/* Polynomial x^7 + x^3 + 1, over a command frame. */
uint8_t poet_sdcard_crc7(const uint8_t *data, uint32_t bytes);

/* Polynomial x^16 + x^12 + x^5 + 1, start 0, over a data block. */
uint16_t poet_sdcard_crc16(const uint8_t *data, uint32_t bytes);

#endif
