/* SPDX-License-Identifier: Apache-2.0 */
/* Delta evaluation; what that is, what a key is, and what the fields are, stands in search/delta_evaluation.py. */
#ifndef POET_DELTA_EVALUATION_H
#define POET_DELTA_EVALUATION_H

#include "evaluation.h"

#define DELTA_EVALUATION(ARRAY, TABLE, SCALAR) \
    ARRAY(int64_t, edit_place)                 \
    ARRAY(int64_t, edit_event)                 \
    ARRAY(int64_t, edit_key)                   \
    ARRAY(int64_t, edit_memory)                \
    ARRAY(int64_t, memory)                     \
    ARRAY(int64_t, change_value)               \
    ARRAY(int64_t, change_sign)                \
    ARRAY(int64_t, change_open)                \
    ARRAY(int64_t, change_close)               \
    SCALAR(int64_t, most_changes)              \
    ARRAY(int64_t, changed)                    \
    ARRAY(int64_t, sign)                       \
    ARRAY(int64_t, change)                     \
    ARRAY(int64_t, touch)                      \
    ARRAY(int64_t, slot)                       \
    ARRAY(int64_t, computes)                   \
    ARRAY(int64_t, pages)                      \
    ARRAY(int64_t, nodes)                      \
    ARRAY(bool, listed)                        \
    ARRAY(int64_t, pending)                    \
    ARRAY(int64_t, values)                     \
    ARRAY(int64_t, value_at)                   \
    ARRAY(int64_t, counters)

STRUCT(delta_evaluation, DELTA_EVALUATION);

/* Entries of delta_evaluation.counters. */
enum { EDITS, CHANGES };

enum {
    PER_PLACE = 64,       /* keys for each place */
    LAST = PER_PLACE - 1, /* the last of them, that of the old event */
    LEFT_OUT = -1         /* stands for the event of an edit that leaves out the event at its place */
};

/* Stands for the RAM at an event that nothing needs. */
#define DROPPED (-((int64_t)1 << 60))

/* The place of a key. */
static inline int64_t place_of(int64_t key)
{
    return key / PER_PLACE;
}

/* The key of the old event at a place. */
static inline int64_t key_at(int64_t place)
{
    return place * PER_PLACE + LAST;
}

/* Whether a key is that of an old event. */
static inline bool is_old(int64_t key)
{
    return key % PER_PLACE == LAST;
}

/* Remove all edits; the old sequence is the one in `work`. */
void clear_edits(const struct workspace *work, struct delta_evaluation *delta, int64_t length);

/* Add an edit: leave out the event at `place`. False if there are too many edits. */
bool leave_out(struct delta_evaluation *delta, int64_t place);

/* Add an edit: put in `event` right before `key`. False if there are too many edits. */
bool put_in(struct delta_evaluation *delta, int64_t key, int64_t event);

/* Remove one edit. */
void take_back(struct delta_evaluation *delta, int64_t edit);

/* Give `other` the edits of `delta`. */
void copy_edits(const struct delta_evaluation *delta, struct delta_evaluation *other);

/* Write the edited sequence to work->candidate; returns its length, or -1 if it is too long. */
int64_t write_edited(struct workspace *work, const struct delta_evaluation *delta, int64_t length);

/* Whether v is in RAM just before `key`, in the edited sequence. */
bool live_before(const struct workspace *work, const struct delta_evaluation *delta, int64_t key, int64_t v);

/* Key of the first event after `key` that uses v, in the edited sequence; -1 if there is none. */
int64_t next_use(const struct problem *problem, const struct workspace *work, const struct delta_evaluation *delta,
                 int64_t key, int64_t v);

/* Whether the extra event at `place` seems unnecessary: RAM has room to keep its values since their last use.
 *
 * Only old events are examined. Inputs that are read last by this event are taken to be free before it. */
bool room_for(const struct problem *problem, const struct workspace *work, const struct delta_evaluation *delta,
              int64_t place);

/* Evaluate the edited sequence; `old` is the evaluation of the old one. The length is -1 if the edited sequence is no
 * schedule, else 1. With DMA the time is 0: only the full evaluation gives the makespan. */
struct evaluation evaluate_edits(const struct problem *problem, const struct workspace *work, struct evaluation old,
                                 struct delta_evaluation *delta);

#endif
