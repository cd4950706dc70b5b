/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32 (IEEE 802.3, as in zlib): the check of every page and of every benchmark's outputs.
 *
 *     uint32_t crc = poet_crc32(0, first, 100);
 *     crc = poet_crc32(crc, second, 50);   // the CRC of both pieces one after another
 */
#ifndef POET_CRC32_H
#define POET_CRC32_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint32_t poet_crc32(uint32_t crc, const void *data, uint32_t bytes);

/* The same, five times as fast, with a table of 4 KB: what moves tensors to and from a card calls it. Where a program
 * has it, poet_crc32 takes it, too. */
uint32_t poet_crc32_quick(uint32_t crc, const void *data, uint32_t bytes);

#ifdef __cplusplus
}
#endif

#endif
