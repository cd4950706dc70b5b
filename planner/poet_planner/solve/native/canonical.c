/* SPDX-License-Identifier: Apache-2.0 */
#include "canonical.h"
#include "minmax.h"

FIELDS(canonical_search, CANONICAL_SEARCH)

/* A row of `changes`, which are undone the latest first. */
struct change {
    int64_t kind;
    int64_t what;
    int64_t before; /* the number that stood there */
};

enum { FLOOR, LEAST, PLACED, EXCLUDED, RAISED, LEVEL, CLOSED };

/* A row of `decisions`: what lies on the floor of a section of the valley low:high. */
struct decision {
    int64_t section;
    int64_t low;
    int64_t high;
    int64_t next;     /* place in `alive` of what is tried next */
    int64_t changed;  /* number of changes before it */
    int64_t part_low; /* no unplaced block leaves the sections part_low:part_high around the valley */
    int64_t part_high;
    uint64_t key; /* of the state of those */
};

static struct change *change_at(const struct canonical_search *search, int64_t number)
{
    return (struct change *)(search->changes + number * search->changes_columns);
}

static struct decision *decision_at(const struct canonical_search *search, int64_t depth)
{
    return (struct decision *)(search->decisions + depth * search->decisions_columns);
}

static uint64_t *conflicts_at(const struct canonical_search *search, int64_t depth)
{
    return search->conflicts + depth * search->conflicts_columns;
}

static int64_t sections_of(const struct canonical_search *search)
{
    return search->floor_count;
}

/* Sets of sections: 64 to a word. */

static bool has_section(const uint64_t *set, int64_t section)
{
    return ((set[section >> 6] >> (section & 63)) & 1) != 0;
}

static void add_section(uint64_t *set, int64_t section)
{
    set[section >> 6] |= (uint64_t)1 << (section & 63);
}

/* Add the sections from `low` until before `high`. */
static void add_sections(uint64_t *set, int64_t low, int64_t high)
{
    for (int64_t section = low; section < high; section++) {
        add_section(set, section);
    }
}

/* Whether the set has a section from `low` until before `high`. */
static bool has_any(const uint64_t *set, int64_t low, int64_t high)
{
    if (low >= high) {
        return false;
    }
    const int64_t first = low >> 6;
    const int64_t last = (high - 1) >> 6;
    const uint64_t from_low = UINT64_MAX << (low & 63);
    const uint64_t to_high = UINT64_MAX >> (63 - ((high - 1) & 63));
    if (first == last) {
        return (set[first] & from_low & to_high) != 0;
    }
    uint64_t met = (set[first] & from_low) | (set[last] & to_high);
    for (int64_t word = first + 1; word < last; word++) {
        met |= set[word];
    }
    return met != 0;
}

/* Add one set to another. */
static void merge(const struct canonical_search *search, const uint64_t *set, uint64_t *into)
{
    for (int64_t word = 0; word < search->conflict_count; word++) {
        into[word] |= set[word];
    }
}

static void clear(const struct canonical_search *search, uint64_t *set)
{
    for (int64_t word = 0; word < search->conflict_count; word++) {
        set[word] = 0;
    }
}

/* One section explains the failure: it lacks room. */
static void blame(struct canonical_search *search, int64_t section)
{
    clear(search, search->conflict);
    add_section(search->conflict, section);
    search->weight[section] += 1.0;
}

/* Note a change, which can then be undone. */
static void note(struct canonical_search *search, int64_t kind, int64_t what, int64_t before)
{
    if (search->changed == search->changes_rows) {
        search->full = true;
        return;
    }
    *change_at(search, search->changed) = (struct change){kind, what, before};
    search->changed++;
}

/* Count a block as no longer unplaced; `times` -1: as unplaced again. */
static void take(struct canonical_search *search, int64_t block, int64_t times)
{
    const int64_t last = search->last[block];
    for (int64_t section = search->first[block]; section < last; section++) {
        search->unplaced[section] -= times * search->size[block];
    }
    for (int64_t section = search->first[block]; section < last - 1; section++) {
        search->leaving[section] -= times;
    }
}

/* Whether an unplaced block lies in the sections low:high. */
static bool is_inside(const struct canonical_search *search, int64_t block, int64_t low, int64_t high)
{
    return search->first[block] >= low && search->last[block] <= high && !search->placed[block];
}

/* Whether all blocks equal to an unplaced one that come before it are placed. */
static bool is_next_twin(const struct canonical_search *search, int64_t block)
{
    return search->twin[block] < 0 || search->placed[search->twin[block]];
}

/* Whether a block could lie on the floor of this valley. */
static bool is_candidate(const struct canonical_search *search, int64_t block, int64_t low, int64_t high)
{
    return is_inside(search, block, low, high) && !search->excluded[block] && is_next_twin(search, block);
}

struct valley {
    int64_t low;
    int64_t high;
};

/* Whether no unplaced block crosses from the section before `section` into it. */
static bool is_apart(const struct canonical_search *search, int64_t section)
{
    return section == 0 || section == sections_of(search) || search->leaving[section - 1] == 0;
}

/* The valley with the section that has the fewest bytes to spare; low -1: nothing is unplaced. */
static struct valley tightest_valley(const struct canonical_search *search)
{
    const int64_t *const floor = search->floor;
    const int64_t sections = sections_of(search);
    struct valley tightest = {-1, -1};
    int64_t fewest = search->capacity + 1;
    int64_t low = 0;
    while (low < sections) {
        const int64_t level = floor[low];
        if (level > search->capacity) {
            low++;
            continue;
        }
        int64_t high = low;
        int64_t most = 0;
        do {
            most = max_int(most, search->unplaced[high]);
            high++;
        } while (high < sections && floor[high] == level && search->leaving[high - 1] > 0);
        const bool walled =
            (is_apart(search, low) || floor[low - 1] > level) && (is_apart(search, high) || floor[high] > level);
        const int64_t spare = search->capacity - level - most;
        if (walled && spare < fewest) {
            tightest = (struct valley){low, high};
            fewest = spare;
        }
        low = high;
    }
    return tightest;
}

/* What a valley has for its floor. */
struct cover {
    int64_t candidates; /* number of blocks that could lie there */
    int64_t inside;     /* number of unplaced blocks within the valley */
    int64_t lowest_top; /* the lowest top that an excluded block would have where it was excluded */
};

/* Count by how many blocks each section of a valley could be covered on its floor. */
static struct cover cover(struct canonical_search *search, int64_t low, int64_t high)
{
    int64_t *const covers = search->covers;
    for (int64_t section = low; section <= high; section++) {
        covers[section] = 0;
    }
    struct cover found = {0, 0, INT64_MAX};
    for (int64_t block = search->starting[low]; block < search->starting[high]; block++) {
        if (search->placed[block] || search->last[block] > high) {
            continue;
        }
        found.inside++;
        if (search->excluded[block]) {
            found.lowest_top = min_int(found.lowest_top, search->least[block] + search->size[block]);
        } else if (is_next_twin(search, block)) {
            found.candidates++;
            covers[search->first[block]]++;
            covers[search->last[block]]--;
        }
    }
    for (int64_t section = low + 1; section < high; section++) {
        covers[section] += covers[section - 1];
    }
    return found;
}

/* The least offset of the unplaced blocks in a section, without those inside low:high; above the capacity if there are
 * none. */
static int64_t least_in(const struct canonical_search *search, int64_t section, int64_t low, int64_t high)
{
    int64_t least = search->capacity + 1;
    for (int64_t k = search->alive_start[section]; k < search->alive_start[section + 1]; k++) {
        const int64_t block = search->alive[k];
        if (!search->placed[block] && (search->first[block] < low || search->last[block] > high)) {
            least = min_int(least, search->least[block]);
        }
    }
    return least;
}

/* Raise a valley without candidates to the least offset of a block that leaves it.
 *
 * The lowest of the blocks inside must lie on such a block. False: it cannot. */
static bool close_valley(struct canonical_search *search, int64_t low, int64_t high, struct cover found)
{
    const int64_t least = min_int(least_in(search, low, low, high), least_in(search, high - 1, low, high));
    note(search, LEVEL, 0, least);
    note(search, CLOSED, low, high);
    if (least > search->capacity || (found.inside > 0 && found.lowest_top <= least)) {
        clear(search, search->conflict);
        add_section(search->conflict, low);
        return false;
    }
    for (int64_t section = low; section < high; section++) {
        note(search, FLOOR, section, search->floor[section]);
        search->floor[section] = least;
        if (least + search->unplaced[section] > search->capacity) {
            blame(search, section);
            return false;
        }
    }
    for (int64_t block = search->starting[low]; block < search->starting[high]; block++) {
        if (is_inside(search, block, low, high) && search->least[block] < least) {
            note(search, LEAST, block, search->least[block]);
            search->least[block] = least;
        }
    }
    return true;
}

/* Raise the sections of a valley that no candidate covers; `raised` says whether there were any. False: one of them
 * then lacks room. */
static bool raise_uncovered(struct canonical_search *search, int64_t low, int64_t high, bool *raised)
{
    const int64_t level = search->floor[low];
    *raised = false;
    for (int64_t section = low; section < high; section++) {
        if (search->covers[section] != 0) {
            continue;
        }
        const int64_t least = least_in(search, section, section, section); /* no block is inside nothing */
        /* Else an excluded block waits there for what comes to lie below it. */
        if (least > level) {
            *raised = true;
            note(search, RAISED, section, level);
            search->floor[section] = least;
            if (least + search->unplaced[section] > search->capacity) {
                blame(search, section);
                return false;
            }
        }
    }
    return true;
}

static uint64_t mixed(uint64_t bits)
{
    /* The shifts keep the sign. */
    bits = (bits ^ (uint64_t)((int64_t)bits >> 31)) * UINT64_C(0x7FB5D329728EA185);
    bits = (bits ^ (uint64_t)((int64_t)bits >> 27)) * UINT64_C(0x1B03738712FAD5C9);
    return bits ^ (uint64_t)((int64_t)bits >> 33);
}

/* A hash of the state of sections that no unplaced block leaves. */
static uint64_t key_of(const struct canonical_search *search, int64_t low, int64_t high)
{
    uint64_t key = (uint64_t)(low + 1);
    for (int64_t section = low; section < high; section++) {
        if (search->floor[section] <= search->capacity) {
            key += mixed((uint64_t)search->floor[section] * (uint64_t)sections_of(search) + (uint64_t)section);
        }
    }
    for (int64_t block = search->starting[low]; block < search->starting[high]; block++) {
        if (!search->placed[block]) {
            key += (uint64_t)search->mark[block] * (search->excluded[block] ? 3 : 1);
        }
    }
    return mixed(key);
}

/* Where the key of a failed state is kept. */
static uint64_t *failed_at(const struct canonical_search *search, uint64_t key)
{
    return &search->failed[key & (uint64_t)(search->failed_count - 1)];
}

/* The section of a valley with the fewest choices for its weight. */
static int64_t fewest_choices(const struct canonical_search *search, int64_t low, int64_t high)
{
    const int64_t above = search->capacity - search->floor[low];
    int64_t smallest = search->capacity + 1;
    for (int64_t block = search->starting[low]; block < search->starting[high]; block++) {
        if (is_inside(search, block, low, high) && !search->excluded[block]) {
            smallest = min_int(smallest, search->size[block]);
        }
    }
    int64_t best = -1;
    double fewest = 0.0;
    for (int64_t section = low; section < high; section++) {
        if (search->covers[section] > 0) {
            const bool may_stay_free = above - search->unplaced[section] >= smallest;
            const double choices = (double)(search->covers[section] + may_stay_free) / search->weight[section];
            if (best < 0 || choices < fewest) {
                best = section;
                fewest = choices;
            }
        }
    }
    return best;
}

/* Add a decision on what lies on the floor of a section of a valley. FAILS: the state has failed before. */
static enum outcome decide(struct canonical_search *search, int64_t low, int64_t high)
{
    int64_t part_low = low;
    int64_t part_high = high;
    while (!is_apart(search, part_low)) {
        part_low--;
    }
    while (!is_apart(search, part_high)) {
        part_high++;
    }
    const uint64_t key = key_of(search, part_low, part_high);
    if (*failed_at(search, key) == key) {
        clear(search, search->conflict);
        add_sections(search->conflict, part_low, part_high);
        return FAILS;
    }
    if (search->depth == search->decisions_rows) {
        search->full = true;
        return OPEN;
    }
    const int64_t section = fewest_choices(search, low, high);
    *decision_at(search, search->depth) =
        (struct decision){section, low, high, search->alive_start[section], search->changed, part_low, part_high, key};
    clear(search, conflicts_at(search, search->depth));
    search->depth++;
    return OPEN;
}

/* Raise floors as far as they must be, then add the next decision.
 *
 * FITS: nothing is unplaced. FAILS: the conflict says why. */
static enum outcome descend(struct canonical_search *search)
{
    while (!search->full) {
        const struct valley valley = tightest_valley(search);
        if (valley.low < 0) {
            return FITS;
        }
        const struct cover found = cover(search, valley.low, valley.high);
        if (found.candidates == 0) {
            if (!close_valley(search, valley.low, valley.high, found)) {
                return FAILS;
            }
            continue;
        }
        bool raised;
        if (!raise_uncovered(search, valley.low, valley.high, &raised)) {
            return FAILS;
        }
        if (!raised) {
            return decide(search, valley.low, valley.high);
        }
    }
    return OPEN;
}

/* Raise the least offsets of the unplaced blocks over `first:last` to `top`. Excluded ones are so no longer. */
static void lift_above(struct canonical_search *search, int64_t first, int64_t last, int64_t top)
{
    for (int64_t other = 0; other < search->starting[last]; other++) {
        if (search->last[other] > first && search->least[other] < top && !search->placed[other]) {
            note(search, LEAST, other, search->least[other]);
            search->least[other] = top;
            if (search->excluded[other]) {
                note(search, EXCLUDED, other, 1);
                search->excluded[other] = false;
            }
        }
    }
}

/* Place a block; false: a section then lacks room. */
static bool place(struct canonical_search *search, int64_t block, int64_t offset)
{
    const int64_t first = search->first[block];
    const int64_t last = search->last[block];
    const int64_t top = offset + search->size[block];
    note(search, PLACED, block, 0);
    search->placed[block] = true;
    search->offset[block] = offset;
    take(search, block, 1);
    int64_t missing = -1;
    for (int64_t section = first; section < last; section++) {
        note(search, FLOOR, section, search->floor[section]);
        const int64_t unplaced = search->unplaced[section];
        search->floor[section] = unplaced > 0 ? top : search->capacity + 1;
        const bool lacks = unplaced > 0 && top + unplaced > search->capacity;
        if (lacks && (missing < 0 || search->weight[section] > search->weight[missing])) {
            missing = section;
        }
    }
    if (missing >= 0) {
        blame(search, missing);
        return false;
    }
    lift_above(search, first, last, top);
    return true;
}

/* Whether the section has room for what else could come to lie under its blocks; if not, the conflict says why. */
static bool may_stay_free(struct canonical_search *search, int64_t section, int64_t low, int64_t high)
{
    const int64_t unplaced = search->unplaced[section];
    const int64_t level = search->floor[section];
    int64_t least = search->capacity + 1;
    for (int64_t block = search->starting[low]; block < search->starting[high]; block++) {
        const bool elsewhere = section < search->first[block] || section >= search->last[block];
        if (elsewhere && is_inside(search, block, low, high)) {
            least = min_int(least, level + search->size[block]);
        }
    }
    if (!is_apart(search, low)) {
        least = min_int(least, search->floor[low - 1]);
    }
    if (!is_apart(search, high)) {
        least = min_int(least, search->floor[high]);
    }
    if (least + unplaced <= search->capacity) {
        return true;
    }
    blame(search, section);
    if (level + 1 + unplaced <= search->capacity) {
        add_sections(search->conflict, max_int(low - 1, 0), min_int(high + 1, sections_of(search)));
    }
    return false;
}

/* Which walls of a run of sections the blocks that leave it meet. */
struct walls {
    bool left;
    bool right;
    bool both;
};

static void meet_walls(const struct canonical_search *search, int64_t section, int64_t left, int64_t right,
                       struct walls *met)
{
    for (int64_t k = search->alive_start[section]; k < search->alive_start[section + 1]; k++) {
        const int64_t block = search->alive[k];
        if (!search->placed[block]) {
            const bool meets_left = search->first[block] <= left;
            const bool meets_right = search->last[block] > right;
            met->left = met->left || (meets_left && !meets_right);
            met->right = met->right || (meets_right && !meets_left);
            met->both = met->both || (meets_left && meets_right);
        }
    }
}

/* Add to the conflict why the blocks that leave these sections, all below `level`, cannot lie below it. */
static void explain(struct canonical_search *search, int64_t low, int64_t high, int64_t level)
{
    int64_t left = low - 1;
    int64_t right = high;
    while (left >= 0 && search->floor[left] < level) {
        left--;
    }
    while (right < sections_of(search) && search->floor[right] < level) {
        right++;
    }
    struct walls met = {false, false, false};
    meet_walls(search, low, left, right, &met);
    meet_walls(search, high - 1, left, right, &met);
    if (met.both && !met.left && !met.right) {
        met.right = right < sections_of(search) && has_section(search->conflict, right);
        met.left = !met.right;
    }
    if (met.left) {
        add_section(search->conflict, left);
    }
    if (met.right) {
        add_section(search->conflict, right);
    }
}

/* All has been tried: the decision is gone, and the conflict says why. */
static void give_up(struct canonical_search *search, const struct decision *decision)
{
    const int64_t section = decision->section;
    search->depth--;
    clear(search, search->conflict);
    merge(search, conflicts_at(search, search->depth), search->conflict);
    add_section(search->conflict, section);
    explain(search, section, section + 1, search->floor[section] + 1);
    if (!has_any(search->conflict, 0, decision->part_low) &&
        !has_any(search->conflict, decision->part_high, sections_of(search))) {
        *failed_at(search, decision->key) = decision->key;
    }
}

/* Exclude the candidates of a section: nothing lies on its floor. */
static void exclude(struct canonical_search *search, const struct decision *decision)
{
    for (int64_t k = search->alive_start[decision->section]; k < search->alive_start[decision->section + 1]; k++) {
        const int64_t block = search->alive[k];
        if (is_candidate(search, block, decision->low, decision->high)) {
            note(search, EXCLUDED, block, 0);
            search->excluded[block] = true;
        }
    }
}

/* Try what the latest decision has left: a block, then that none lies there.
 *
 * FAILS: that fails, or nothing was left, and the decision is gone. */
static enum outcome try_next(struct canonical_search *search)
{
    struct decision *const decision = decision_at(search, search->depth - 1);
    const int64_t section = decision->section;
    const int64_t stop = search->alive_start[section + 1];
    while (decision->next < stop) {
        const int64_t block = search->alive[decision->next];
        decision->next++;
        if (is_candidate(search, block, decision->low, decision->high)) {
            return place(search, block, search->floor[section]) ? OPEN : FAILS;
        }
    }
    if (decision->next == stop) {
        decision->next++;
        if (may_stay_free(search, section, decision->low, decision->high)) {
            exclude(search, decision);
            return OPEN;
        }
        merge(search, search->conflict, conflicts_at(search, search->depth - 1));
    }
    give_up(search, decision);
    return FAILS;
}

/* Undo a change; whether the conflict depends on it.
 *
 * Raised floors follow from others, which take their places in the conflict. */
static bool undo(struct canonical_search *search, const struct change *change)
{
    const int64_t what = change->what;
    switch (change->kind) {
    case FLOOR:
        search->floor[what] = change->before;
        return false;
    case LEAST:
        search->least[what] = change->before;
        return false;
    case PLACED:
        search->placed[what] = false;
        take(search, what, -1);
        return has_any(search->conflict, search->first[what], search->last[what]);
    case EXCLUDED:
        search->excluded[what] = change->before != 0;
        return has_any(search->conflict, search->first[what], search->last[what]);
    case RAISED: {
        const int64_t level = search->floor[what];
        search->floor[what] = change->before;
        if (has_section(search->conflict, what)) {
            explain(search, what, what + 1, level);
        }
        return false;
    }
    case CLOSED:
        if (has_any(search->conflict, what, change->before)) {
            const int64_t level = change[-1].before; /* that of LEVEL, which comes before it */
            add_sections(search->conflict, what, change->before);
            explain(search, what, change->before, min_int(level, search->capacity + 1));
        }
        return false;
    default:
        return false;
    }
}

/* Undo decisions down to the latest one that the conflict depends on; false: there is none. */
static bool jump_back(struct canonical_search *search)
{
    for (; search->depth > 0; search->depth--) {
        bool depends = false;
        while (search->changed > decision_at(search, search->depth - 1)->changed) {
            search->changed--;
            depends = undo(search, change_at(search, search->changed)) || depends;
        }
        if (depends) {
            merge(search, search->conflict, conflicts_at(search, search->depth - 1));
            return true;
        }
    }
    return false;
}

static void reset(struct canonical_search *search)
{
    for (int64_t section = 0; section < sections_of(search); section++) {
        search->floor[section] = 0;
    }
    for (int64_t block = 0; block < search->size_count; block++) {
        if (search->placed[block]) {
            take(search, block, -1);
        }
        search->placed[block] = false;
        search->excluded[block] = false;
        search->least[block] = 0;
    }
    search->depth = 0;
    search->changed = 0;
    search->full = false;
}

/* Search from the start, with at most `limit` decisions, which are the tally's steps. */
enum outcome canonical_run(struct canonical_search *search, int64_t limit, volatile int64_t *tally)
{
    reset(search);
    int64_t tried = 0;
    enum outcome result = descend(search);
    while (result != FITS) {
        if (search->full) {
            return search->depth == search->decisions_rows ? DEEP : FULL;
        }
        if (result == FAILS && !jump_back(search)) {
            return FAILS;
        }
        if (tried >= limit || is_used_up(tally)) {
            return CUT_OFF;
        }
        tried++;
        count_steps(tally, 1);
        result = try_next(search);
        if (result == OPEN) {
            result = descend(search);
        }
    }
    return FITS;
}

/* Let the blocks of each section be tried in `order`. `filled` has room for a number for each section. */
void canonical_fill(struct canonical_search *search, const int64_t *order, int64_t *filled)
{
    for (int64_t section = 0; section < sections_of(search); section++) {
        filled[section] = search->alive_start[section];
    }
    for (int64_t k = 0; k < search->size_count; k++) {
        const int64_t block = order[k];
        for (int64_t section = search->first[block]; section < search->last[block]; section++) {
            search->alive[filled[section]] = block;
            filled[section]++;
        }
    }
}
