/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/sample_set.h"

#include <stdbool.h>
#include <string.h>

#include "poet/crc32.h"
#include "poet/normalise.h"

static const char magic[16] = "POET SET 1\n";

/* Words of the header. */
enum { COUNT = 4, SAMPLE_BLOCKS, CHECK, TENSORS, CHANNELS, FIRST_TENSOR };
/* Words of a tensor's entry. */
enum { TYPE, NUMBERS, FIRST_CHANNEL, CHANNEL_COUNT, ENTRY_WORDS };

enum { HEADER_WORDS = POET_BLOCK_BYTES / 4u, READS = 3 };

static uint32_t padded(uint32_t bytes)
{
    return (bytes + 3u) / 4u * 4u;
}

static const uint32_t *entry(const poet_sample_set *set, uint32_t tensor)
{
    return set->header + FIRST_TENSOR + ENTRY_WORDS * tensor;
}

static float channel(const poet_sample_set *set, uint32_t place, uint32_t which)
{
    float number;
    memcpy(&number, entry(set, set->header[TENSORS]) + 2u * place + which, sizeof number);
    return number;
}

static bool is_batch(const poet_resident *resident)
{
    return resident->kind == POET_RESIDENT_INPUT || resident->kind == POET_RESIDENT_TARGET;
}

/* Whether magic, lengths and check fit: until they do, no other word is read. */
static bool is_whole(const poet_sample_set *set)
{
    const uint32_t tensors = set->header[TENSORS];
    const uint32_t channels = set->header[CHANNELS];
    if (memcmp(set->header, magic, sizeof magic) != 0 || tensors > HEADER_WORDS || channels > HEADER_WORDS) {
        return false;
    }
    const uint32_t words = FIRST_TENSOR + ENTRY_WORDS * tensors + 2u * channels;
    return words < HEADER_WORDS && set->header[words] == poet_crc32_quick(0, set->header, 4u * words);
}

/* The bytes that an entry's numbers take on the card; 0 if it is none, or its channels are not all there. */
static uint32_t entry_bytes(const poet_sample_set *set, const uint32_t *numbers)
{
    const uint32_t size = poet_number_bytes(numbers[TYPE]);
    const uint32_t channels = numbers[CHANNEL_COUNT];
    const uint32_t all = set->header[CHANNELS];
    if (size == 0 || numbers[NUMBERS] == 0 || numbers[NUMBERS] > UINT32_MAX / 8u || channels == 0 ||
        numbers[NUMBERS] % channels != 0 || channels > all || numbers[FIRST_CHANNEL] > all - channels) {
        return 0;
    }
    return padded(size * numbers[NUMBERS]);
}

/* Whether the samples are those of the model's batch: as many tensors, and each a whole number of samples, the same. */
static bool fits(poet_sample_set *set, const poet_model *model)
{
    uint32_t tensor = 0;
    uint32_t bytes = 4; /* the check */
    set->batch = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (!is_batch(resident)) {
            continue;
        }
        if (tensor == set->header[TENSORS]) {
            return false;
        }
        const uint32_t *numbers = entry(set, tensor++);
        const uint32_t taken = entry_bytes(set, numbers);
        const uint32_t batch = taken == 0 ? 0 : resident->bytes / (4u * numbers[NUMBERS]);
        if (batch == 0 || resident->bytes % (4u * numbers[NUMBERS]) != 0 || (set->batch != 0 && batch != set->batch)) {
            return false;
        }
        set->batch = batch;
        bytes += taken;
    }
    return tensor == set->header[TENSORS] && set->header[SAMPLE_BLOCKS] == (bytes - 1u) / POET_BLOCK_BYTES + 1u;
}

int poet_sample_set_open(poet_sample_set *set, const poet_block_device *device, uint32_t block, const poet_model *model)
{
    bool any = false;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        any = any || is_batch(&model->residents[i]);
    }
    if (!any) {
        return POET_E_UNSUPPORTED;
    }
    set->device = device;
    set->block = block;
    if (block >= device->block_count) {
        return POET_E_ABSENT;
    }
    const int status = device->read(device->context, block, set->header, sizeof set->header);
    if (status != POET_OK) {
        return status;
    }
    if (!is_whole(set) || !fits(set, model)) {
        return POET_E_ABSENT;
    }
    set->count = set->header[COUNT];
    set->sample_blocks = set->header[SAMPLE_BLOCKS];
    set->check = set->header[CHECK];
    return set->count <= (device->block_count - block - 1u) / set->sample_blocks ? POET_OK : POET_E_ABSENT;
}

/* A sample's bytes one after the other, read block by block. */
typedef struct reader {
    const poet_block_device *device;
    uint32_t block;
    uint32_t at;
    uint32_t buffer[HEADER_WORDS];
} reader;

/* At most `most` bytes that follow, a multiple of 4 as everything before was, so that no number is torn. */
static int next_bytes(reader *from, uint32_t most, const uint8_t **data, uint32_t *count)
{
    const uint32_t inside = from->at % POET_BLOCK_BYTES;
    if (inside == 0) {
        const int status = from->device->read(from->device->context, from->block++, from->buffer, sizeof from->buffer);
        if (status != POET_OK) {
            return status;
        }
    }
    *data = (const uint8_t *)from->buffer + inside;
    *count = most < POET_BLOCK_BYTES - inside ? most : POET_BLOCK_BYTES - inside;
    from->at += *count;
    return POET_OK;
}

/* Normalises numbers of one tensor from the one with index `first` on, each by its channel's pair. */
static void take(const poet_sample_set *set, const uint32_t *numbers, uint32_t first, const uint8_t *data,
                 uint32_t count, uint8_t *to)
{
    const uint32_t run = numbers[NUMBERS] / numbers[CHANNEL_COUNT];
    const uint32_t size = poet_number_bytes(numbers[TYPE]);
    for (uint32_t done = 0; done < count;) {
        const uint32_t place = numbers[FIRST_CHANNEL] + (first + done) / run;
        const uint32_t left = run - (first + done) % run;
        const uint32_t some = left < count - done ? left : count - done;
        poet_normalise((poet_number)numbers[TYPE], channel(set, place, 0), channel(set, place, 1), data + size * done,
                       some, to + 4u * (first + done));
        done += some;
    }
}

static int read_tensor(const poet_sample_set *set, reader *from, const uint32_t *numbers, uint8_t *to, uint32_t *crc)
{
    const uint32_t size = poet_number_bytes(numbers[TYPE]);
    const uint32_t bytes = padded(size * numbers[NUMBERS]);
    for (uint32_t done = 0; done < bytes;) {
        const uint8_t *data;
        uint32_t count;
        const int status = next_bytes(from, bytes - done, &data, &count);
        if (status != POET_OK) {
            return status;
        }
        const uint32_t first = done / size;
        const uint32_t left = numbers[NUMBERS] - first;
        take(set, numbers, first, data, count / size < left ? count / size : left, to);
        *crc = poet_crc32_quick(*crc, data, count);
        done += count;
    }
    return POET_OK;
}

static int read_once(const poet_sample_set *set, const poet_model *model, uint32_t number, uint8_t *residents,
                     uint32_t place)
{
    reader from = {.device = set->device, .block = set->block + 1u + number * set->sample_blocks};
    uint32_t crc = number; /* so that no sample passes for another one */
    uint32_t tensor = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (!is_batch(resident)) {
            continue;
        }
        const uint32_t *numbers = entry(set, tensor++);
        const int status =
            read_tensor(set, &from, numbers, residents + resident->offset + 4u * numbers[NUMBERS] * place, &crc);
        if (status != POET_OK) {
            return status;
        }
    }
    const uint8_t *data;
    uint32_t count;
    const int status = next_bytes(&from, 4, &data, &count);
    return status != POET_OK ? status : memcmp(data, &crc, sizeof crc) == 0 ? POET_OK : POET_E_CORRUPT;
}

int poet_sample_set_read(const poet_sample_set *set, const poet_model *model, uint32_t number, uint8_t *residents,
                         uint32_t place)
{
    if (number >= set->count || place >= set->batch) {
        return POET_E_ARGUMENT;
    }
    int status = POET_E_CORRUPT;
    for (uint32_t reads = 0; reads < READS && status == POET_E_CORRUPT; reads++) {
        status = read_once(set, model, number, residents, place);
    }
    return status;
}
