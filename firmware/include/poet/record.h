/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that live on the card from step to step, and the record that says which versions of them count (docs/SPEC.md,
 * section 7).
 *
 * What a step changes has two homes. The step reads the home that counts and writes the other one; then one record, in
 * one of two places that take turns, makes all that was written count at once. So a step is done wholly or not at all,
 * whenever the power fails.
 *
 *     poet_record record;
 *     poet_record_init(&record, &model, residents, checks, homes);
 *     poet_record_load(&record, &card);             // POET_E_ABSENT: no record of this model
 *     poet_record_find(&record, kept, 0, &place);   // where to read
 *     poet_record_begin(&record, kept, &home);      // where to write its next version; then poet_record_end
 *     poet_record_commit(&record, record.step + 1); // all that was written counts, and the residents too
 *
 * The caller has made sure that the card carries poet's label (poet_pager_open).
 */
#ifndef POET_RECORD_H
#define POET_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/block_device.h"
#include "poet/model.h"
#include "poet/schedule.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the firmware remembers of each unit (a kept tensor that a step changes, or all residents that outlive a step),
 * and after them of each kept tensor that is neither one nor of a batch. A check is the sum of the CRCs of all rows,
 * each begun with the row's number: of a tensor that lies as a whole, its CRC. */
typedef struct poet_check {
    uint32_t crc;      /* of the version that counts */
    uint32_t next_crc; /* of the version that has been written */
    bool written;      /* a whole next version has been written, or all rows of it that differ */
} poet_check;

/* Words that a table of so many bits takes. */
#define POET_BIT_WORDS(count) (((count) + 31u) / 32u)

/* Words for the homes that the next step reads, those that it changes, and those that count. */
#define POET_HOME_WORDS(bit_count) (3u * POET_BIT_WORDS(bit_count))

typedef struct poet_record {
    const poet_model *model;
    uint8_t *residents;
    poet_check *checks; /* check_count; caller-owned */
    uint32_t *homes;    /* a bit for each unit or row, then perhaps another: which home is read; caller-owned */
    uint32_t *changed;  /* as many words: a next version has been written; after the others */
    uint32_t *counts;   /* as `homes`: which home the record says; after those */
    const poet_block_device *device;
    uint32_t sequence;                 /* of the record that counts; 0: there is none */
    uint32_t refused;                  /* sequence of a newer one whose tensors are damaged; 0: none */
    uint32_t place;                    /* where the record that counts stands, 0 or 1 */
    uint32_t step;                     /* steps that have been done */
    uint32_t committed;                /* of them count, whatever happens */
    uint32_t batches;                  /* on the card */
    const struct poet_kept_ways *ways; /* the runner's */
} poet_record;

/* A tensor as it is to be read. */
typedef struct poet_kept_place {
    uint32_t block; /* of the card */
    uint32_t bytes;
    uint32_t crc;
    bool checked; /* a row has no CRC */
} poet_kept_place;

/* `homes` is POET_HOME_WORDS(bit_count) words. */
void poet_record_init(poet_record *record, const poet_model *model, uint8_t *residents, poet_check *checks,
                      uint32_t *homes);

/* Reads which versions count, and forgets what was written since. POET_E_ABSENT if the card has no record of this
 * model: it is then as if the second home of every unit counted, empty. Residents stay as they are. */
int poet_record_load(poet_record *record, const poet_block_device *device);

/* Reads the residents back. POET_E_CORRUPT if they are damaged on the card; those in RAM are then unchanged. */
int poet_record_read_residents(poet_record *record);

/* Loads the newest record all of whose tensors are whole on the card, which it reads for that, and the residents.
 * POET_E_ABSENT if there is no record of this model, POET_E_CORRUPT if none is whole. */
int poet_record_restore(poet_record *record, const poet_block_device *device);

/* Whether a record of another graph, or of another version of poet, stands on the card: POET_E_TAKEN, so that nobody
 * overwrites the tensors that it names. `own` is a graph whose records are no others, 0: there is none. What cannot be
 * read is no record. */
int poet_record_check_others(const poet_block_device *device, uint64_t own);

/* Where the row is that a step has to read, or the tensor that lies as a whole (row 0): of a unit the version that
 * counts, of a batch that of the step. */
int poet_record_find(const poet_record *record, const poet_kept *kept, uint32_t row, poet_kept_place *place);

/* Whether the batch of the step is whole on the card: POET_E_CORRUPT. */
int poet_record_check_batch(const poet_record *record);

/* First block of the home that the next version of a row goes to, or of a unit that lies as a whole. POET_E_ORDER if
 * that was written already. */
int poet_record_begin(const poet_record *record, const poet_kept *kept, uint32_t row, uint32_t *block);

/* The next version is whole. */
void poet_record_end(poet_record *record, const poet_kept *kept, uint32_t crc);

/* The next version of a row is whole. Its CRCs, begun with the row's number, of the version that counts and of this. */
void poet_record_end_row(poet_record *record, const poet_kept *kept, uint32_t row, uint32_t crc_before,
                         uint32_t crc_after);

/* Forgets what a step that was not ended has written. */
void poet_record_forget(poet_record *record);

/* Ends a step: what it wrote is what the next one reads. Of a model that commits in each n-th step it counts from then
 * on. Errors are those of poet_record_commit. */
int poet_record_end_step(poet_record *record);

/* Makes everything that was written count, and the residents as they are in RAM. POET_E_ORDER if there is no record yet
 * and a tensor with a check was not written, or there are no batches; POET_E_NOT_FINITE if a resident parameter is
 * infinite or no number: nothing has been written then. After another error the record has to be loaded again: which
 * one counts is then not known. */
int poet_record_commit(poet_record *record, uint32_t step);

/* Lets what poet_checkpoint_restore has brought to memory count, as of a step. Of batches there is one, to be given. */
int poet_record_take(poet_record *record, uint32_t step);

/* For a card that is prepared over the serial line. Both take bytes of one tensor: of a unit `put` writes the next
 * version and `get` reads the one that counts; of a batch's tensor `offset` runs through all batches. The `put` that
 * holds the last byte of a tensor completes it, the `get` that holds the first one checks it. POET_E_ARGUMENT outside
 * of the tensor. */
int poet_record_put(poet_record *record, const poet_kept *kept, uint32_t offset, const uint8_t *data, uint32_t bytes);
int poet_record_get(const poet_record *record, const poet_kept *kept, uint32_t offset, uint8_t *data, uint32_t bytes);

/* So many batches lie on the card from now on; the next record says so. POET_E_FULL if they do not fit. */
int poet_record_set_batches(poet_record *record, uint32_t batches);

/* First block of the page area, after everything. */
uint32_t poet_record_page_block(const poet_record *record);

/* Bytes of all tensors that a record has checks of. */
uint32_t poet_record_bytes(const poet_record *record);

/* Whether each step of a model ends with a commit: something on the card is no constant, and it is no inference. */
bool poet_record_ends_steps(const poet_model *model);

/* Whether a step may fail after it has changed residents: those that count are then the record's. */
bool poet_record_may_be_needed(const poet_schedule *schedule);

/* Whether the table of kept tensors, which is not empty, is the layout that docs/SPEC.md describes. */
bool poet_record_layout_is_sound(const poet_model *model);

#ifdef __cplusplus
}
#endif

#endif
