/* SPDX-License-Identifier: Apache-2.0 */
#include "ejection.h"
#include "first_fit.h"

FIELDS(ejection, EJECTION)

#define HEAVIEST ((int64_t)1 << 44) /* weight above which all weights are scaled down */
#define NOISE_PART 8                /* the weight in the way is overestimated by up to one such part of it, at random */
#define SCALED_BITS 12              /* by which weights are shifted when they are scaled down */

/* How many blocks are placed, and how many wait. */
struct counts {
    int64_t placed;
    int64_t waiting;
};

/* A whole number from 0 to `below - 1` (xorshift). */
static int64_t draw(uint64_t *random, int64_t below)
{
    uint64_t bits = *random;
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    *random = bits;
    return (int64_t)(bits % (uint64_t)below);
}

/* Remove `block` from the first `count` blocks. */
static void take_out(int64_t *ordered, int64_t count, int64_t block)
{
    int64_t at = 0;
    while (ordered[at] != block) {
        at++;
    }
    for (int64_t k = at; k < count - 1; k++) {
        ordered[k] = ordered[k + 1];
    }
}

static void put_in(struct ejection *search, struct counts *counts, int64_t block)
{
    insert(search->by_bottom, counts->placed, block, search->bottom);
    insert(search->by_top, counts->placed, block, search->top);
    counts->placed++;
}

/* Keep the offsets, if fewer bytes wait than ever before; returns the fewest. */
static int64_t keep_fullest(struct ejection *search, int64_t waiting, int64_t fewest)
{
    int64_t bytes = 0;
    for (int64_t k = 0; k < waiting; k++) {
        bytes += search->size[search->waiting[k]];
    }
    if (bytes >= fewest) {
        return fewest;
    }
    for (int64_t block = 0; block < search->size_count; block++) {
        search->offsets[block] = search->bottom[block];
    }
    for (int64_t k = 0; k < waiting; k++) {
        search->offsets[search->waiting[k]] = -1;
    }
    return bytes;
}

/* Find the placed blocks that live while `block` does; returns their number. `below` receives them by their bottoms,
 * `above` by their tops. */
static int64_t alive_with(struct ejection *search, int64_t block, int64_t placed)
{
    const int64_t first = search->start[block];
    const int64_t last = search->end[block];
    int64_t met = 0;
    int64_t upper = 0;
    /* Without a branch, which the processor could not foresee. */
    for (int64_t k = 0; k < placed; k++) {
        const int64_t low = search->by_bottom[k];
        search->below[met] = low;
        met += (search->start[low] < last) & (first < search->end[low]);
        const int64_t high = search->by_top[k];
        search->above[upper] = high;
        upper += (search->start[high] < last) & (first < search->end[high]);
    }
    return met;
}

/* The offset at which the blocks in the way weigh least, up to some noise; drawn among equals.
 *
 * Without noise, two large blocks may eject each other forever, though moving a small one would make room for both.
 * Only offset 0 and those at which the block touches another one are tried. */
static int64_t lightest(struct ejection *search, int64_t block, int64_t met)
{
    const int64_t *const below = search->below;
    const int64_t *const above = search->above;
    const int64_t height = search->size[block];
    int64_t entered = 0;
    int64_t gone = 0;
    int64_t in_way = 0;
    int64_t least = INT64_MAX;
    int64_t equals = 0;
    int64_t chosen = 0;
    int64_t at = 0;
    while (at <= search->capacity - height) {
        for (; entered < met && search->bottom[below[entered]] < at + height; entered++) {
            in_way += search->weight[below[entered]];
        }
        for (; gone < met && search->top[above[gone]] <= at; gone++) {
            in_way -= search->weight[above[gone]];
        }
        const int64_t noisy = in_way + draw(search->random, 1 + in_way / NOISE_PART);
        if (noisy < least) {
            least = noisy;
            equals = 0;
        }
        if (noisy == least) {
            equals++;
            if (draw(search->random, equals) == 0) {
                chosen = at;
            }
        }
        int64_t after = gone < met ? search->top[above[gone]] : search->capacity;
        if (entered < met) {
            const int64_t touches = search->bottom[below[entered]] - height;
            if (touches > at && touches < after) {
                after = touches;
            }
        }
        at = after;
    }
    return chosen;
}

/* Let the blocks wait that overlap `block`, which is not placed yet; `below` are those alive with it. */
static void make_room(struct ejection *search, struct counts *counts, int64_t block, int64_t met)
{
    for (int64_t k = 0; k < met; k++) {
        const int64_t other = search->below[k];
        if (search->bottom[other] < search->top[block] && search->top[other] > search->bottom[block]) {
            take_out(search->by_bottom, counts->placed, other);
            take_out(search->by_top, counts->placed, other);
            counts->placed--;
            search->waiting[counts->waiting++] = other;
        }
    }
}

/* A block that had to eject others gains weight. */
static void gain(struct ejection *search, int64_t block)
{
    int64_t *const weight = search->weight;
    weight[block] += 1 + (int64_t)(search->growth * (double)weight[block]);
    if (weight[block] > HEAVIEST) {
        for (int64_t k = 0; k < search->weight_count; k++) {
            weight[k] = 1 + (weight[k] >> SCALED_BITS);
        }
    }
}

/* Whether all blocks are placed after at most `moves` moves, which are the tally's steps. The first `placed` of
 * `by_bottom` and `by_top` are, the first of `waiting` are not. `offsets` receive what it comes to. */
bool eject(struct ejection *search, int64_t placed, int64_t moves, volatile int64_t *tally)
{
    struct counts counts = {placed, search->size_count - placed};
    int64_t fewest = INT64_MAX;
    for (int64_t move = 0; move < moves; move++) {
        fewest = keep_fullest(search, counts.waiting, fewest);
        if (counts.waiting == 0) {
            return true;
        }
        if (is_used_up(tally)) {
            break;
        }
        count_steps(tally, 1);
        const int64_t pick = draw(search->random, counts.waiting);
        const int64_t block = search->waiting[pick];
        counts.waiting--;
        search->waiting[pick] = search->waiting[counts.waiting];
        const int64_t met = alive_with(search, block, counts.placed);
        search->bottom[block] = lightest(search, block, met);
        search->top[block] = search->bottom[block] + search->size[block];
        const int64_t before = counts.waiting;
        make_room(search, &counts, block, met);
        put_in(search, &counts, block);
        if (counts.waiting > before) {
            gain(search, block);
        }
    }
    return false;
}
