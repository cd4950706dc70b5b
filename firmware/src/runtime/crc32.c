/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/crc32.h"

#include <stddef.h>

#include "poet/operator.h"

/* Remainders by the reflected polynomial 0xEDB88320 of four bits. */
static const uint32_t remainders[16] = {
    0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
    0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu,
};

POET_OPTIONAL uint32_t poet_crc32_quick(uint32_t crc, const void *data, uint32_t bytes);

uint32_t poet_crc32(uint32_t crc, const void *data, uint32_t bytes)
{
    if (poet_crc32_quick != NULL) {
        return poet_crc32_quick(crc, data, bytes);
    }
    crc = ~crc;
    for (const uint8_t *byte = data, *end = byte + bytes; byte != end; byte++) {
        crc ^= *byte;
        crc = remainders[crc & 15u] ^ crc >> 4;
        crc = remainders[crc & 15u] ^ crc >> 4;
    }
    return ~crc;
}
