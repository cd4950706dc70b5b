/* SPDX-License-Identifier: Apache-2.0 */
#include "sdcard_crc.h"

#include "poet/crc_table.def"

/* remainder_of[k][byte]: what a byte leaves behind when k more bytes of zero follow it. */
static const uint16_t remainder_of[4][256] = {
    POET_CRC_TABLE(0x1021u, 0x2042u, 0x4084u, 0x8108u, 0x1231u, 0x2462u, 0x48C4u, 0x9188u),
    POET_CRC_TABLE(0x3331u, 0x6662u, 0xCCC4u, 0x89A9u, 0x0373u, 0x06E6u, 0x0DCCu, 0x1B98u),
    POET_CRC_TABLE(0x3730u, 0x6E60u, 0xDCC0u, 0xA9A1u, 0x4363u, 0x86C6u, 0x1DADu, 0x3B5Au),
    POET_CRC_TABLE(0x76B4u, 0xED68u, 0xCAF1u, 0x85C3u, 0x1BA7u, 0x374Eu, 0x6E9Cu, 0xDD38u),
};

uint8_t poet_sdcard_crc7(const uint8_t *data, uint32_t bytes)
{
    uint32_t crc = 0u;

    for (uint32_t i = 0u; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 0x80u) != 0u ? (crc << 1) ^ 0x12u : crc << 1;
        }
    }
    return (uint8_t)((crc >> 1) & 0x7Fu);
}

/* Four bytes at once: the remainders of the parts of a sum add up. */
uint16_t poet_sdcard_crc16(const uint8_t *data, uint32_t bytes)
{
    uint32_t crc = 0u;

    for (; bytes >= 4u; bytes -= 4u, data += 4) {
        crc = (uint32_t)(remainder_of[3][(crc >> 8) ^ data[0]] ^ remainder_of[2][(crc & 0xFFu) ^ data[1]] ^
                         remainder_of[1][data[2]] ^ remainder_of[0][data[3]]);
    }
    for (; bytes > 0u; bytes--, data++) {
        crc = ((crc << 8) & 0xFFFFu) ^ remainder_of[0][(crc >> 8) ^ *data];
    }
    return (uint16_t)crc;
}
