/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: a card with anything on it, whose transfers may fail. What is read back and called good is what
 * was written. */
#include <stddef.h>
#include <string.h>

#include "board.h"
#include "model.h"
#include "poet/board.h"
#include "poet/checkpoint.h"
#include "poet/crc32.h"
#include "poet/pager.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t take(const uint8_t **data, size_t *size)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < 4 && *size > 0; i++, (*size)--) {
        number |= (uint32_t)*(*data)++ << (8u * i);
    }
    return number;
}

static void check_pages(poet_pager *pager, uint32_t block, uint32_t bytes, uint32_t crc)
{
    uint8_t *ram = (uint8_t *)fuzz_ram;
    bytes %= FUZZ_RAM_BYTES + 1u;
    if (poet_pager_in(pager, block, ram, bytes, crc) == POET_OK && poet_crc32(0, ram, bytes) != crc) {
        __builtin_trap();
    }
    memset(ram, (int)(crc & 0xffu), sizeof fuzz_ram);
    if (poet_pager_out(pager, block, ram, bytes, &crc) != POET_OK) {
        return;
    }
    memset(ram, 0, sizeof fuzz_ram);
    if (poet_pager_in(pager, block, ram, bytes, crc) == POET_OK && poet_crc32(0, ram, bytes) != crc) {
        __builtin_trap();
    }
}

static void check_commits(const poet_block_device *card, uint32_t step)
{
    uint8_t *ram = (uint8_t *)fuzz_ram;
    uint8_t committed[64];
    uint32_t restored;
    uint32_t bytes;
    (void)poet_checkpoint_restore(card, &fuzz_model, 0, ram, NULL, &restored, &bytes);
    memset(ram, (int)(step & 0xffu), sizeof committed); /* the only parameter */
    memcpy(committed, ram, sizeof committed);
    if (poet_checkpoint_commit(card, &fuzz_model, 0, ram, NULL, step, &bytes) != POET_OK) {
        return;
    }
    memset(ram, 0, sizeof fuzz_ram);
    if (poet_checkpoint_restore(card, &fuzz_model, 0, ram, NULL, &restored, &bytes) != POET_OK) {
        return;
    }
    if (restored != step || bytes != sizeof committed || memcmp(ram, committed, sizeof committed) != 0) {
        __builtin_trap();
    }
}

/* Whatever lies in the two places, and whatever fails: what a record that was written says is what comes back. */
static void check_records(const poet_block_device *card, uint32_t step)
{
    uint8_t *ram = (uint8_t *)fuzz_ram;
    uint8_t weights[64];
    uint8_t found[64];
    poet_record record;
    memset(ram, (int)(step >> 8 & 0xffu), sizeof fuzz_ram);
    memset(weights, (int)(step & 0xffu), sizeof weights);
    poet_record_init(&record, &fuzz_model, ram, fuzz_checks, fuzz_homes);
    (void)poet_record_restore(&record, card);
    if (!fuzz_prepare(&record, card) || poet_record_put(&record, fuzz_kept, 0, weights, sizeof weights) != POET_OK ||
        poet_record_commit(&record, step) != POET_OK) {
        return;
    }
    memcpy(found, ram, sizeof found); /* the only resident that outlives a step */
    memset(ram, 0, sizeof fuzz_ram);
    fuzz_card_faults = 0; /* a version that cannot be read gives way to the one before */
    poet_record_init(&record, &fuzz_model, ram, fuzz_checks, fuzz_homes);
    if (poet_record_restore(&record, card) != POET_OK) {
        __builtin_trap();
    }
    if (record.step != step || memcmp(ram, found, sizeof found) != 0) {
        __builtin_trap();
    }
    if (poet_record_get(&record, fuzz_kept, 0, found, sizeof found) != POET_OK ||
        memcmp(found, weights, sizeof found) != 0) {
        __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reset();
    fuzz_now = fuzz_whole;
    fuzz_build();
    const uint32_t faults = take(&data, &size);
    const uint32_t block = take(&data, &size);
    const uint32_t bytes = take(&data, &size);
    const uint32_t crc = take(&data, &size);
    const uint32_t step = take(&data, &size);

    /* What is left lies on the card: in the label, the two slot headers and the first page, 64 bytes each in turn. */
    static const uint32_t blocks[] = {0, 16, 17, 1032, 1033, POET_CARD_DATA_BLOCK};
    for (size_t i = 0; i < size; i++) {
        fuzz_card[blocks[i / 64u % 6u] * POET_BLOCK_BYTES + i / 384u % 8u * 64u + i % 64u] ^= data[i];
    }

    poet_block_device card;
    poet_pager pager;
    if (poet_board_storage(&card) != POET_OK) {
        __builtin_trap();
    }
    fuzz_card_faults = faults;
    if (poet_pager_open(&pager, &card) == POET_OK) {
        check_pages(&pager, block % (FUZZ_CARD_BLOCKS + 2u), bytes, crc);
    }
    check_commits(&card, step);
    check_records(&card, step);
    return 0;
}
