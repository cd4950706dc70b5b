/* SPDX-License-Identifier: Apache-2.0 */
/* Four bytes at a time ("slicing by 4"): twice as fast as byte by byte for 3 KB more of flash, and every page is
 * checked whenever it moves. With -Os byte by byte. Little-endian, as all our cores are. */
#include "poet/crc32.h"

#include <string.h>

#include "poet/crc_table.def"

/* Row k: remainders by the reflected polynomial 0xEDB88320 of each byte value with k zero bytes after it. */
static const uint32_t remainders[][256] = {
    POET_CRC_TABLE(0x77073096u, 0xee0e612cu, 0x076dc419u, 0x0edb8832u, 0x1db71064u, 0x3b6e20c8u, 0x76dc4190u,
                   0xedb88320u),
#ifndef __OPTIMIZE_SIZE__
    POET_CRC_TABLE(0x191b3141u, 0x32366282u, 0x646cc504u, 0xc8d98a08u, 0x4ac21251u, 0x958424a2u, 0xf0794f05u,
                   0x3b83984bu),
    POET_CRC_TABLE(0x01c26a37u, 0x0384d46eu, 0x0709a8dcu, 0x0e1351b8u, 0x1c26a370u, 0x384d46e0u, 0x709a8dc0u,
                   0xe1351b80u),
    POET_CRC_TABLE(0xb8bc6765u, 0xaa09c88bu, 0x8f629757u, 0xc5b428efu, 0x5019579fu, 0xa032af3eu, 0x9b14583du,
                   0xed59b63bu),
#endif
};

static uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    return remainders[0][(crc ^ byte) & 0xffu] ^ crc >> 8;
}

#ifndef __OPTIMIZE_SIZE__
static uint32_t add_word(uint32_t crc, uint32_t word)
{
    crc ^= word;
    return remainders[3][crc & 0xffu] ^ remainders[2][crc >> 8 & 0xffu] ^ remainders[1][crc >> 16 & 0xffu] ^
           remainders[0][crc >> 24];
}
#endif

uint32_t poet_crc32_quick(uint32_t crc, const void *data, uint32_t bytes)
{
    const uint8_t *byte = data;
    crc = ~crc;
#ifndef __OPTIMIZE_SIZE__
    for (; bytes > 0 && (uintptr_t)byte % 4u != 0; bytes--) {
        crc = add_byte(crc, *byte++);
    }
    for (; bytes >= 4u; bytes -= 4u, byte += 4) {
        uint32_t word;
        memcpy(&word, __builtin_assume_aligned(byte, 4), sizeof word);
        crc = add_word(crc, word);
    }
#endif
    for (; bytes > 0; bytes--) {
        crc = add_byte(crc, *byte++);
    }
    return ~crc;
}
