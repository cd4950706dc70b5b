/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/features.h"

#include <stdbool.h>
#include <string.h>

#include "poet/crc32.h"

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
    for (uint32_t i = next_kept(head, 0); i < model->resident_count; i = next_kept(head, i + 1u)) {
        bytes += model->residents[i].bytes / extraction->samples;
    }
    const uint32_t room = taken < ram_bytes ? (ram_bytes - taken) / bytes : 0u;
    *store = (poet_feature_store){*head, ram, ram + taken, bytes, room, extraction->samples, seed};
}

static uint32_t check_of(const poet_feature_store *store, const uint8_t *record, uint32_t number)
{
    const uint32_t begin[] = {store->seed, number};
    const uint32_t crc = poet_crc32(0, begin, sizeof begin);
    return poet_crc32(crc, record + sizeof crc, store->record_bytes - (uint32_t)sizeof crc);
}

/* The record of a number; NULL if there is no such place or number. */
static uint8_t *record_of(const poet_feature_store *store, uint32_t place, uint32_t number)
{
    return place < store->samples && number < store->room ? store->records + number * store->record_bytes : NULL;
}

int poet_feature_store_keep(const poet_feature_store *store, uint32_t place, uint32_t number)
{
    const poet_model *model = store->head.model;
    uint8_t *record = record_of(store, place, number);
    if (record == NULL) {
        return POET_E_ARGUMENT;
    }
    uint8_t *to = record + sizeof(uint32_t);
    for (uint32_t i = next_kept(&store->head, 0); i < model->resident_count; i = next_kept(&store->head, i + 1u)) {
        const uint32_t bytes = model->residents[i].bytes / store->samples;
        memcpy(to, store->ram + model->residents[i].offset + place * bytes, bytes);
        to += bytes;
    }
    const uint32_t crc = check_of(store, record, number);
    memcpy(record, &crc, sizeof crc);
    return POET_OK;
}

/* Finds the record of a sample that is kept, under a number that there is room for. */
static int find(const poet_feature_store *store, uint32_t number, const uint8_t **rows)
{
    const uint8_t *record = record_of(store, 0, number);
    if (record == NULL) {
        return POET_E_ARGUMENT;
    }
    const uint32_t crc = check_of(store, record, number);
    *rows = record + sizeof crc;
    return memcmp(record, &crc, sizeof crc) == 0 ? POET_OK : POET_E_ABSENT;
}

int poet_feature_store_fill(const poet_feature_store *store, uint32_t place, uint32_t number)
{
    const poet_plan *head = &store->head;
    const poet_resident *residents = head->model->residents;
    const uint32_t count = head->model->resident_count;
    const uint8_t *from;
    const int status = place < store->samples ? find(store, number, &from) : POET_E_ARGUMENT;
    for (uint32_t i = next_kept(head, 0); status == POET_OK && i < count; i = next_kept(head, i + 1u)) {
        const uint32_t bytes = residents[i].bytes / store->samples;
        memcpy(store->ram + residents[i].offset + place * bytes, from, bytes);
        from += bytes;
    }
    return status;
}

int poet_feature_store_give(const poet_feature_store *store, const poet_model *infer, uint32_t number)
{
    const poet_plan *head = &store->head;
    const poet_resident *residents = head->model->residents;
    const uint32_t count = head->model->resident_count;
    uint32_t own = poet_features_own(infer, count);
    const uint8_t *from;
    const int status = find(store, number, &from);
    for (uint32_t i = next_kept(head, 0); status == POET_OK && i < count; i = next_kept(head, i + 1u)) {
        const uint32_t bytes = residents[i].bytes / store->samples;
        if (residents[i].kind == POET_RESIDENT_FEATURE) {
            memcpy(store->ram + infer->residents[own].offset, from, bytes);
            own = poet_features_own(infer, own + 1u);
        }
        from += bytes;
    }
    return status;
}
