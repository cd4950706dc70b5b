/* SPDX-License-Identifier: Apache-2.0 */
/* Sets as rows of bits, 64 to a word, and hash tables of such rows (open addressing, linear probing). Python's own are
 * in statespace/bitset.py. */
#ifndef POET_BITSET_H
#define POET_BITSET_H

#include <string.h>

#include "engine.h"

/* Words that a row of `bits` bits takes. */
static inline int64_t words_of(int64_t bits)
{
    return (bits + 63) >> 6;
}

/* Whether the set contains `bit`. */
static inline bool has(const int64_t *row, int64_t bit)
{
    return (row[bit >> 6] >> (bit & 63) & 1) != 0;
}

/* Add `bit` to the set. */
static inline void put(int64_t *row, int64_t bit)
{
    row[bit >> 6] |= (int64_t)((uint64_t)1 << (bit & 63));
}

/* Remove `bit` from the set. */
static inline void take_out(int64_t *row, int64_t bit)
{
    row[bit >> 6] &= (int64_t)~((uint64_t)1 << (bit & 63));
}

static inline void copy_row(const int64_t *row, int64_t words, int64_t *into)
{
    memcpy(into, row, (size_t)words * sizeof *row);
}

/* The slot of the hash table that holds the number of a row, or the free slot where it belongs. */
static inline int64_t slot_of(const int64_t *slots, int64_t slot_count, const int64_t *rows, const int64_t *row,
                              int64_t words)
{
    uint64_t mixed = 0;
    for (int64_t word = 0; word < words; word++) {
        mixed = (mixed ^ (uint64_t)row[word]) * UINT64_C(0x2545F4914F6CDD1D);
        mixed ^= (uint64_t)((int64_t)mixed >> 29);
    }
    int64_t slot = (int64_t)(mixed & (uint64_t)(slot_count - 1));
    while (slots[slot] >= 0 && memcmp(rows + slots[slot] * words, row, (size_t)words * sizeof *row) != 0) {
        slot = (slot + 1) & (slot_count - 1);
    }
    return slot;
}

void fill_slots(const int64_t *rows, int64_t count, int64_t words, int64_t *slots, int64_t slot_count);

#endif
