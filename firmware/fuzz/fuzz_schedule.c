/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: damaged models and schedules. The input is laid over a whole one, bit by bit (exclusive or): they
 * are refused or run, but nothing outside of their memory is touched. The whole model itself runs. */
#include <stddef.h>
#include <string.h>

#include "board.h"
#include "model.h"
#include "poet/board.h"
#include "poet/pager.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Two steps, or why not. */
static int train(bool trace)
{
    poet_runner runner;
    poet_block_device card;
    poet_pager pager;
    poet_record record;
    int status = poet_runner_init(&runner, &fuzz_model, &fuzz_schedule, &fuzz_built.tables, fuzz_ram, sizeof fuzz_ram);
    if (status != POET_OK) {
        return status;
    }
    if (poet_board_storage(&card) != POET_OK || poet_pager_open(&pager, &card) != POET_OK) {
        __builtin_trap();
    }
    if (!fuzz_prepare(&record, &card)) {
        return POET_E_FULL;
    }
    pager.page_area = poet_record_page_block(&record);
    poet_run run = {.pager = &pager, .record = &record, .learning_rate = 0.5f, .trace = trace};
    for (int i = 0; i < 2; i++) {
        status = poet_runner_step(&runner, &run);
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reset();
    fuzz_now = fuzz_whole;
    for (size_t i = 0; i < size && i < sizeof fuzz_now; i++) {
        ((uint8_t *)&fuzz_now)[i] ^= data[i];
    }
    fuzz_build();
    if (train(size % 2u != 0) != POET_OK && size == 0) {
        __builtin_trap();
    }
    return 0;
}
