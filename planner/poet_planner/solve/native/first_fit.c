/* SPDX-License-Identifier: Apache-2.0 */
#include "first_fit.h"

/* Keep those of the placed blocks that still live when a block starts; returns their number. */
static int64_t still_alive(int64_t *placed, int64_t count, const int64_t *end, int64_t start)
{
    int64_t alive = 0;
    for (int64_t at = 0; at < count; at++) {
        placed[alive] = placed[at];
        alive += end[placed[at]] > start;
    }
    return alive;
}

/* Place `count` blocks in `order`, each at the lowest offset that is free during its life; returns the height, or -1
 * once the tally, whose steps are blocks, is used up.
 *
 * `by_start`: whether `order` is that of the starts, so that blocks that have ended need not be compared any more.
 * `placed` has room for all blocks, and receives those placed, by their offsets. */
int64_t first_fit(int64_t count, const int64_t *order, const int64_t *start, const int64_t *end, const int64_t *size,
                  bool by_start, int64_t *offsets, int64_t *placed, volatile int64_t *tally)
{
    int64_t compared = 0;
    int64_t height = 0;
    for (int64_t k = 0; k < count; k++) {
        if (is_used_up(tally)) {
            return -1;
        }
        count_steps(tally, 1);
        const int64_t block = order[k];
        if (by_start) {
            compared = still_alive(placed, compared, end, start[block]);
        }
        int64_t offset = 0;
        for (int64_t at = 0; at < compared; at++) {
            const int64_t other = placed[at];
            if (offset + size[block] <= offsets[other]) {
                break;
            }
            const int64_t top = offsets[other] + size[other];
            if (start[other] < end[block] && start[block] < end[other] && top > offset) {
                offset = top;
            }
        }
        offsets[block] = offset;
        insert(placed, compared, block, offsets);
        compared++;
        if (offset + size[block] > height) {
            height = offset + size[block];
        }
    }
    return height;
}
