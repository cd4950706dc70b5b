/* SPDX-License-Identifier: Apache-2.0 */
/* A table of 256 remainders, made of those of the eight bits: a CRC is linear, so a byte leaves what its bits leave. */
#ifndef POET_CRC_TABLE_H
#define POET_CRC_TABLE_H

#define POET_CRC_2(x, a) (x), (x) ^ (a)
#define POET_CRC_4(x, a, b) POET_CRC_2(x, a), POET_CRC_2((x) ^ (b), a)
#define POET_CRC_8(x, a, b, c) POET_CRC_4(x, a, b), POET_CRC_4((x) ^ (c), a, b)
#define POET_CRC_16(x, a, b, c, d) POET_CRC_8(x, a, b, c), POET_CRC_8((x) ^ (d), a, b, c)
#define POET_CRC_32(x, a, b, c, d, e) POET_CRC_16(x, a, b, c, d), POET_CRC_16((x) ^ (e), a, b, c, d)
#define POET_CRC_64(x, a, b, c, d, e, f) POET_CRC_32(x, a, b, c, d, e), POET_CRC_32((x) ^ (f), a, b, c, d, e)
#define POET_CRC_128(x, a, b, c, d, e, f, g) POET_CRC_64(x, a, b, c, d, e, f), POET_CRC_64((x) ^ (g), a, b, c, d, e, f)
/* `a` is the remainder of the byte 1, `b` that of 2, `h` that of 128. */
#define POET_CRC_TABLE(a, b, c, d, e, f, g, h) \
    {POET_CRC_128(0u, a, b, c, d, e, f, g), POET_CRC_128(h, a, b, c, d, e, f, g)}

#endif
