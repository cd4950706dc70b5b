/* SPDX-License-Identifier: Apache-2.0 */
#include "bitset.h"

/* Enter the numbers of `rows`, which are all different, in an empty hash table. */
void fill_slots(const int64_t *rows, int64_t count, int64_t words, int64_t *slots, int64_t slot_count)
{
    for (int64_t k = 0; k < count; k++) {
        slots[slot_of(slots, slot_count, rows, rows + k * words, words)] = k;
    }
}
