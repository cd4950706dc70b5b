/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/features.h"

#include <stdbool.h>
#include <string.h>

#include "poet/crc32.h"
#include "poet/pager.h"
#include "poet/saved.h"

static bool is_of_batch(const poet_resident *resident)
{
    return resident->kind == POET_RESIDENT_INPUT || resident->kind == POET_RESIDENT_TARGET ||
           resident->kind == POET_RESIDENT_FEATURE;
}

uint32_t poet_features_own(const poet_model *infer, uint32_t from)
{
    while (from < infer->resident_count && infer->residents[from].kind != POET_RESIDENT_FEATURE) {
        from++;
    }
    return from;
}

/* Whether an inference has each of the features, of one sample, after all that the step has. */
__attribute__((cold)) static bool has_own(const poet_extraction *extraction, const poet_model *head)
{
    const poet_model *infer = extraction->infer->model;
    uint32_t own = poet_features_own(infer, head->resident_count);
    for (uint32_t i = 0; i < head->resident_count; i++) {
        const poet_resident *resident = &head->residents[i];
        if (resident->kind == POET_RESIDENT_FEATURE) {
            if (own == infer->resident_count || infer->residents[own].bytes != resident->bytes / extraction->samples) {
                return false;
            }
            own = poet_features_own(infer, own + 1u);
        }
    }
    return own == infer->resident_count;
}

__attribute__((cold)) int poet_features_check(const poet_extraction *extraction, const poet_model *head,
                                              uint32_t ram_bytes)
{
    if (extraction->at_once == 0 || extraction->samples == 0 || extraction->samples % extraction->at_once != 0) {
        return POET_E_CORRUPT;
    }
    for (uint32_t i = 0; i < head->resident_count; i++) {
        if (is_of_batch(&head->residents[i]) && head->residents[i].bytes % extraction->samples != 0) {
            return POET_E_CORRUPT;
        }
    }
    int status = poet_runner_check_inference(&extraction->plan, head, ram_bytes);
    if (status == POET_OK && extraction->infer != NULL) {
        status = poet_runner_check_inference(extraction->infer, head, ram_bytes);
        status = status == POET_OK && !has_own(extraction, head) ? POET_E_CORRUPT : status;
    }
    return status;
}

static void exchange(uint8_t *one, uint8_t *other, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        const uint8_t byte = one[i];
        one[i] = other[i];
        other[i] = byte;
    }
}

void poet_features_exchange(const poet_extraction *extraction, const poet_model *head, uint8_t *ram, uint32_t first)
{
    for (uint32_t i = 0; first > 0 && i < head->resident_count; i++) {
        const poet_resident *resident = &head->residents[i];
        if (is_of_batch(resident) && resident->kind != POET_RESIDENT_TARGET) {
            const uint32_t bytes = resident->bytes / extraction->samples;
            uint8_t *rows = ram + resident->offset;
            exchange(rows, rows + first * bytes, extraction->at_once * bytes);
        }
    }
}

/* Whether the step needs it of a sample: of what is only put for features to be made of it, nothing is kept. */
__attribute__((cold)) static bool is_read(const poet_plan *head, const poet_resident *resident)
{
    const poet_schedule *schedule = head->schedule;
    for (uint32_t i = 0; i < schedule->call_count; i++) {
        const uint32_t *words = schedule->words + schedule->calls[i].words;
        for (uint32_t j = 0; j < schedule->calls[i].inputs; j++) {
            if (words[j] == resident->offset) {
                return true;
            }
        }
    }
    return false;
}

/* The next resident from `place` on of which a record has a row; resident_count after the last. */
static uint32_t next_kept(const poet_plan *head, uint32_t place)
{
    const poet_model *model = head->model;
    while (place < model->resident_count &&
           !(is_of_batch(&model->residents[place]) && is_read(head, &model->residents[place]))) {
        place++;
    }
    return place;
}

__attribute__((cold)) void poet_feature_store_init(poet_feature_store *store, const poet_extraction *extraction,
                                                   const poet_plan *head, uint8_t *ram, uint32_t taken,
                                                   uint32_t ram_bytes, uint32_t seed)
{
    const poet_model *model = head->model;
    uint32_t bytes = sizeof(uint32_t);
    uint32_t blocks = 1u;
    for (uint32_t i = next_kept(head, 0); i < model->resident_count; i = next_kept(head, i + 1u)) {
        bytes += model->residents[i].bytes / extraction->samples;
        blocks += poet_blocks_of(model->residents[i].bytes / extraction->samples);
    }
    const uint32_t room = taken < ram_bytes ? (ram_bytes - taken) / bytes : 0u;
    *store = (poet_feature_store){
        .head = *head,
        .ram = ram,
        .records = ram + taken,
        .record_bytes = bytes,
        .room = room,
        .samples = extraction->samples,
        .seed = seed,
        .card_blocks = blocks,
    };
}

/* Where a record is read or written on. */
typedef struct place {
    uint8_t *ram;   /* NULL: on the card */
    uint32_t block; /* of the card */
    uint32_t crc;   /* of the rows so far */
    bool writing;
} place;

/* Moves a row to a record or from there; NULL: it is read, and nobody wants it. */
static int move_row(const poet_feature_store *store, place *at, uint8_t *row, uint32_t bytes)
{
    if (at->ram != NULL) {
        if (row != NULL) {
            memcpy(at->writing ? at->ram : row, at->writing ? row : at->ram, bytes);
        }
        at->crc = poet_crc32(at->crc, at->ram, bytes);
        at->ram += bytes;
        return POET_OK;
    }
    uint8_t dropped[POET_BLOCK_BYTES];
    const poet_block_device *card = store->card;
    int status = POET_OK;
    for (uint32_t part; status == POET_OK && bytes > 0; bytes -= part) {
        part = row == NULL && bytes > sizeof dropped ? (uint32_t)sizeof dropped : bytes;
        uint8_t *data = row != NULL ? row : dropped;
        status = at->writing ? card->write(card->context, at->block, data, part)
                             : card->read(card->context, at->block, data, part);
        at->crc = poet_crc32(at->crc, data, part);
        at->block += poet_blocks_of(part);
    }
    return status;
}

/* POET_E_ARGUMENT if there is no room for a sample of this number. */
static int find(const poet_feature_store *store, uint32_t number, place *at)
{
    const uint32_t begin[] = {store->seed, number};
    at->crc = poet_crc32(0, begin, sizeof begin);
    if (number < store->room) {
        at->ram = store->records + number * store->record_bytes + sizeof at->crc;
        return POET_OK;
    }
    const poet_block_device *card = store->card;
    const uint32_t blocks =
        card != NULL && card->block_count > store->card_from ? card->block_count - store->card_from : 0u;
    const uint32_t before = number - store->room;
    at->block = card != NULL ? card->block_count - (before + 1u) * store->card_blocks : 0u;
    return before < blocks / store->card_blocks ? POET_OK : POET_E_ARGUMENT;
}

/* All rows of a record, and its check: of a sample of the batch, or to where an inference has features. */
static int move(const poet_feature_store *store, uint32_t sample, const poet_model *infer, uint32_t number,
                bool writing)
{
    const poet_plan *head = &store->head;
    const poet_resident *residents = head->model->residents;
    const uint32_t count = head->model->resident_count;
    uint32_t own = infer != NULL ? poet_features_own(infer, count) : 0u;
    place at = {.writing = writing};
    int status = sample < store->samples ? find(store, number, &at) : POET_E_ARGUMENT;
    uint8_t *const check = at.ram != NULL ? at.ram - sizeof at.crc : NULL;
    for (uint32_t i = next_kept(head, 0); status == POET_OK && i < count; i = next_kept(head, i + 1u)) {
        const uint32_t bytes = residents[i].bytes / store->samples;
        uint8_t *row = store->ram + residents[i].offset + sample * bytes;
        if (infer != NULL) {
            row = residents[i].kind == POET_RESIDENT_FEATURE ? store->ram + infer->residents[own].offset : NULL;
            own = row != NULL ? poet_features_own(infer, own + 1u) : own;
        }
        status = move_row(store, &at, row, bytes);
    }
    const uint32_t crc = at.crc;
    uint32_t held = crc;
    if (status == POET_OK) {
        at.ram = check;
        status = move_row(store, &at, (uint8_t *)&held, sizeof held);
    }
    return status == POET_OK && held != crc ? POET_E_ABSENT : status;
}

int poet_feature_store_keep(const poet_feature_store *store, uint32_t sample, uint32_t number)
{
    return move(store, sample, NULL, number, true);
}

static int read(const poet_feature_store *store, uint32_t sample, const poet_model *infer, uint32_t number)
{
    int status = POET_E_ABSENT;
    for (uint32_t reads = 0; status == POET_E_ABSENT && reads < POET_PAGE_READS; reads++) {
        status = move(store, sample, infer, number, false);
    }
    return status;
}

int poet_feature_store_fill(const poet_feature_store *store, uint32_t sample, uint32_t number)
{
    return read(store, sample, NULL, number);
}

int poet_feature_store_give(const poet_feature_store *store, const poet_model *infer, uint32_t number)
{
    return read(store, 0, infer, number);
}
