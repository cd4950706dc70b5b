/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/record.h"

#include <string.h>

#include "kept.h"
#include "kept_operands.h"
#include "poet/checkpoint.h"
#include "poet/crc32.h"
#include "poet/pager.h"
#include "poet/saved.h"

static const char magic[16] = "POET RECORD 2\n";

#define FIXED_BYTES 52u /* of a record, without bits and CRCs */
#define HASH_OFFSET 24u
#define NAME_BYTES 12u /* of the magic, without the version */

/* What a record says besides its bits and CRCs. */
typedef struct header {
    uint32_t sequence;
    uint32_t step;
    uint32_t batches;
} header;

/* --- bytes one after another, in blocks of the card --- */

typedef struct stream {
    const poet_block_device *device;
    uint32_t block; /* the next one */
    uint32_t used;  /* bytes of the buffer that were read or written */
    uint32_t crc;   /* of all bytes so far */
    int status;     /* the first error ends the stream: what is read then is zero */
    uint8_t buffer[POET_BLOCK_BYTES];
} stream;

static void flush(stream *out)
{
    memset(out->buffer + out->used, 0, sizeof out->buffer - out->used);
    if (out->status == POET_OK) {
        out->status = out->device->write(out->device->context, out->block, out->buffer, sizeof out->buffer);
    }
    out->block++;
    out->used = 0;
}

static void put_byte(stream *out, uint8_t byte)
{
    if (out->used == sizeof out->buffer) {
        flush(out);
    }
    out->buffer[out->used++] = byte;
    out->crc = poet_crc32_quick(out->crc, &byte, 1);
}

static void put32(stream *out, uint32_t word)
{
    for (uint32_t i = 0; i < 4u; i++) {
        put_byte(out, (uint8_t)(word >> (8u * i)));
    }
}

static uint8_t get_byte(stream *in)
{
    if (in->used == sizeof in->buffer) {
        if (in->status == POET_OK) {
            in->status = in->device->read(in->device->context, in->block, in->buffer, sizeof in->buffer);
        }
        in->block++;
        in->used = 0;
    }
    const uint8_t byte = in->status == POET_OK ? in->buffer[in->used] : 0u;
    in->used++;
    in->crc = poet_crc32_quick(in->crc, &byte, 1);
    return byte;
}

static uint32_t get32(stream *in)
{
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4u; i++) {
        word |= (uint32_t)get_byte(in) << (8u * i);
    }
    return word;
}

/* --- the two places --- */

static uint32_t place_block(uint32_t place)
{
    return POET_SLOT_FIRST_BLOCK + place * POET_SLOT_BLOCKS;
}

static uint32_t word_count(const poet_record *record)
{
    return POET_BIT_WORDS(record->model->bit_count);
}

static uint32_t record_bytes(const poet_record *record)
{
    return FIXED_BYTES + 4u * (word_count(record) + record->model->check_count);
}

static int write_record(const poet_record *record, uint32_t place, uint32_t sequence, uint32_t step)
{
    const poet_model *model = record->model;
    stream out = {.device = record->device, .block = place_block(place)};
    for (uint32_t i = 0; i < sizeof magic; i++) {
        put_byte(&out, (uint8_t)magic[i]);
    }
    put32(&out, sequence);
    put32(&out, record_bytes(record));
    put32(&out, (uint32_t)model->graph_hash);
    put32(&out, (uint32_t)(model->graph_hash >> 32));
    put32(&out, step);
    put32(&out, record->batches);
    put32(&out, model->bit_count);
    put32(&out, model->check_count);
    for (uint32_t word = 0; word < word_count(record); word++) {
        put32(&out, record->homes[word]);
    }
    for (uint32_t i = 0; i < model->check_count; i++) {
        put32(&out, record->checks[i].crc);
    }
    put32(&out, out.crc);
    flush(&out);
    return out.status;
}

/* Reads one place, and lets it count if `apply`. POET_E_CORRUPT if no whole record of this model stands there. */
static int read_once(poet_record *record, uint32_t place, bool apply, header *head)
{
    const poet_model *model = record->model;
    stream in = {.device = record->device, .block = place_block(place), .used = POET_BLOCK_BYTES};
    bool ours = true;
    for (uint32_t i = 0; i < sizeof magic; i++) {
        ours = get_byte(&in) == (uint8_t)magic[i] && ours;
    }
    head->sequence = get32(&in);
    ours = get32(&in) == record_bytes(record) && ours;
    ours = get32(&in) == (uint32_t)model->graph_hash && ours;
    ours = get32(&in) == (uint32_t)(model->graph_hash >> 32) && ours;
    head->step = get32(&in);
    head->batches = get32(&in);
    ours = get32(&in) == model->bit_count && ours;
    ours = get32(&in) == model->check_count && ours;
    if (in.status != POET_OK) {
        return in.status;
    }
    if (!ours || head->sequence == 0) {
        return POET_E_CORRUPT;
    }
    for (uint32_t word = 0; word < word_count(record); word++) {
        const uint32_t bits = get32(&in);
        if (apply) {
            record->homes[word] = bits;
            record->counts[word] = bits;
        }
    }
    for (uint32_t i = 0; i < model->check_count; i++) {
        const uint32_t crc = get32(&in);
        if (apply) {
            record->checks[i].crc = crc;
        }
    }
    const uint32_t expected = in.crc;
    const uint32_t found = get32(&in);
    return in.status != POET_OK ? in.status : found == expected ? POET_OK : POET_E_CORRUPT;
}

static int read_record(poet_record *record, uint32_t place, bool apply, header *head)
{
    int status = POET_E_CORRUPT;
    for (uint32_t reads = 0; status == POET_E_CORRUPT && reads < POET_SAVED_READS; reads++) {
        status = read_once(record, place, apply, head);
    }
    return status;
}

/* --- load --- */

void poet_record_init(poet_record *record, const poet_model *model, uint8_t *residents, poet_check *checks,
                      uint32_t *homes)
{
    *record = (poet_record){
        .model = model, .residents = residents, .checks = checks, .homes = homes, .ways = &poet_kept_on_card};
    record->changed = homes + word_count(record);
    record->counts = record->changed + word_count(record);
}

void poet_record_forget(poet_record *record)
{
    for (uint32_t i = 0; i < record->model->check_count; i++) {
        record->checks[i].written = false;
    }
    memset(record->changed, 0, word_count(record) * sizeof *record->changed);
}

/* No record: next versions go to the first homes. */
static void begin_empty(poet_record *record)
{
    record->sequence = 0;
    record->place = 0;
    record->step = 0;
    record->committed = 0;
    record->batches = 0;
    for (uint32_t i = 0; i < record->model->check_count; i++) {
        record->checks[i] = (poet_check){0};
    }
    memset(record->homes, 0, POET_HOME_WORDS(record->model->bit_count) * sizeof *record->homes);
    const uint32_t units = record->model->bit_count / (poet_kept_homes(record->model) - 1u);
    poet_kept_set_bits(record->homes, 0, units, true);
    poet_kept_set_bits(record->counts, 0, units, true);
}

int poet_record_load(poet_record *record, const poet_block_device *device)
{
    header newest = {0};
    uint32_t place = 0;
    int trouble = POET_E_ABSENT;
    record->device = device;
    begin_empty(record);
    if (!poet_has_pages(device)) {
        return POET_E_FULL;
    }
    for (uint32_t i = 0; i < POET_SLOT_COUNT; i++) {
        header head = {0};
        const int status = read_record(record, i, false, &head);
        if (status == POET_OK && head.sequence > newest.sequence && head.sequence != record->refused) {
            newest = head;
            place = i;
        } else if (status != POET_OK && status != POET_E_CORRUPT) {
            trouble = status;
        }
    }
    if (newest.sequence == 0) {
        return trouble; /* what cannot be read may be the only record there is */
    }
    const int status = read_record(record, place, true, &newest);
    if (status != POET_OK) {
        begin_empty(record);
        return status;
    }
    record->sequence = newest.sequence;
    record->place = place;
    record->step = newest.step;
    record->committed = newest.step;
    return poet_record_set_batches(record, newest.batches);
}

__attribute__((cold)) int poet_record_check_others(const poet_block_device *device, uint64_t own)
{
    for (uint32_t place = 0; place < POET_SLOT_COUNT && poet_has_pages(device); place++) {
        uint8_t head[HASH_OFFSET + 8u];
        if (device->read(device->context, place_block(place), head, sizeof head) != POET_OK ||
            memcmp(head, magic, NAME_BYTES) != 0) {
            continue;
        }
        uint64_t hash = 0;
        for (uint32_t i = 0; i < 8u; i++) {
            hash |= (uint64_t)head[HASH_OFFSET + i] << (8u * i);
        }
        if (hash != own || memcmp(head, magic, sizeof magic) != 0) {
            return POET_E_TAKEN;
        }
    }
    return POET_OK;
}

/* --- residents --- */

/* The last unit, and its bit is the last; NULL if no resident outlives a step. */
static poet_check *check_of_residents(const poet_record *record)
{
    return poet_saved_bytes(record->model) > 0 ? &record->checks[record->model->unit_count - 1u] : NULL;
}

/* They change when a record is written, and then alone. */
static uint32_t bit_of_residents(const poet_record *record)
{
    return record->model->bit_count / (poet_kept_homes(record->model) - 1u) - 1u;
}

static poet_kept_place place_of_residents(const poet_record *record, uint32_t home)
{
    const uint32_t bytes = poet_saved_bytes(record->model);
    const uint32_t first = record->model->home_blocks - poet_blocks_of(bytes);
    const poet_check *check = check_of_residents(record);
    return (poet_kept_place){poet_kept_block(record->model, first, home), bytes, check->crc, true};
}

int poet_record_read_residents(poet_record *record)
{
    /* What else was changed since the last commit is then given up, too. */
    int status = record->step == record->committed ? POET_OK : poet_record_load(record, record->device);
    if (status != POET_OK || check_of_residents(record) == NULL) {
        return status;
    }
    const uint32_t home = poet_kept_home(record->model, record->homes, bit_of_residents(record));
    const poet_kept_place place = place_of_residents(record, home);
    status = poet_kept_check_place(record->device, &place);
    for (uint32_t reads = 0; status == POET_OK && reads < POET_SAVED_READS; reads++) {
        status = record->device->read(record->device->context, place.block, record->residents, place.bytes);
        if (status == POET_OK && poet_pager_crc(record->device, 0, record->residents, place.bytes) == place.crc) {
            return POET_OK;
        }
    }
    return status != POET_OK ? status : POET_E_CORRUPT;
}

static int write_residents(poet_record *record)
{
    poet_check *check = check_of_residents(record);
    if (check == NULL) {
        return POET_OK;
    }
    const uint32_t bit = bit_of_residents(record);
    const poet_kept_place next = place_of_residents(record, poet_kept_next_home(record, bit));
    check->next_crc = poet_pager_crc(record->device, 0, record->residents, next.bytes);
    check->written = true;
    poet_kept_set_bits(record->changed, bit, 1, true);
    return record->device->write(record->device->context, next.block, record->residents, next.bytes);
}

/* --- restore --- */

/* Whether every tensor on the card is what the record says. */
static int check_tensors(const poet_record *record)
{
    for (uint32_t i = 0; i < record->model->kept_count; i++) {
        const poet_kept *kept = &record->model->kept[i];
        const int status = kept->check == POET_NO_CHECK ? POET_OK : poet_kept_check(record, kept);
        if (status != POET_OK) {
            return status;
        }
    }
    return POET_OK;
}

int poet_record_restore(poet_record *record, const poet_block_device *device)
{
    record->refused = 0;
    int status = poet_record_load(record, device);
    for (uint32_t i = 0; status == POET_OK && i < POET_SLOT_COUNT; i++) {
        int whole = check_tensors(record);
        if (whole == POET_OK) {
            whole = poet_record_read_residents(record);
        }
        if (whole == POET_OK) {
            return POET_OK;
        }
        record->refused = record->sequence;
        status = poet_record_load(record, device);
        status = status == POET_E_ABSENT || record->sequence > record->refused ? whole : status;
    }
    record->refused = 0;
    return status;
}

/* --- commit --- */

static int check_complete(const poet_record *record)
{
    if (record->model->batch_blocks > 0 && record->batches == 0) {
        return POET_E_ORDER;
    }
    for (uint32_t i = 0; record->sequence == 0 && i < record->model->check_count; i++) {
        const poet_check *check = &record->checks[i];
        if (!check->written && check != check_of_residents(record)) {
            return POET_E_ORDER;
        }
    }
    return POET_OK;
}

/* What was written is read from now on. */
static void settle(poet_record *record)
{
    for (uint32_t i = 0; i < record->model->check_count; i++) {
        poet_check *check = &record->checks[i];
        *check = (poet_check){.crc = check->written ? check->next_crc : check->crc};
    }
    poet_kept_move(record);
    memset(record->changed, 0, word_count(record) * sizeof *record->changed);
}

int poet_record_end_step(poet_record *record)
{
    const uint32_t each = record->model->commit_each;
    const uint32_t step = record->step + 1u;
    if (each <= 1u || step % each == 0u) {
        return poet_record_commit(record, step);
    }
    const int status = poet_saved_check_finite(record->model, record->residents);
    if (status == POET_OK) {
        settle(record);
        record->step = step;
    }
    return status;
}

int poet_record_commit(poet_record *record, uint32_t step)
{
    int status = check_complete(record);
    if (status == POET_OK) {
        status = poet_saved_check_finite(record->model, record->residents);
    }
    if (status == POET_OK) {
        status = write_residents(record);
    }
    if (status == POET_OK) {
        status = record->device->sync(record->device->context);
    }
    if (status != POET_OK) {
        return status;
    }
    settle(record);
    const uint32_t place = record->sequence == 0 ? 0u : 1u - record->place;
    const uint32_t sequence = (record->sequence > record->refused ? record->sequence : record->refused) + 1u;
    status = write_record(record, place, sequence, step);
    if (status == POET_OK) {
        status = record->device->sync(record->device->context);
    }
    header written;
    if (status == POET_OK) {
        /* A record that is lost unseen would cost more than a step: the next one overwrites what the last one names. */
        status = read_record(record, place, false, &written);
    }
    if (status != POET_OK) {
        return status;
    }
    if (written.sequence != sequence) {
        return POET_E_CORRUPT;
    }
    memcpy(record->counts, record->homes, word_count(record) * sizeof *record->counts);
    record->sequence = sequence;
    record->refused = 0;
    record->place = place;
    record->step = step;
    record->committed = step;
    return POET_OK;
}

int poet_record_take(poet_record *record, uint32_t step)
{
    for (uint32_t i = 0; i < record->model->kept_count; i++) {
        if (record->model->kept[i].check != POET_NO_CHECK) {
            poet_record_end(record, &record->model->kept[i], 0);
        }
    }
    const int status = record->model->batch_blocks > 0 ? poet_record_set_batches(record, 1u) : POET_OK;
    return status != POET_OK ? status : poet_record_commit(record, step);
}

uint32_t poet_record_bytes(const poet_record *record)
{
    uint32_t bytes = poet_saved_bytes(record->model);
    for (uint32_t i = 0; i < record->model->kept_count; i++) {
        bytes += record->model->kept[i].check != POET_NO_CHECK ? record->model->kept[i].bytes : 0u;
    }
    return bytes;
}
