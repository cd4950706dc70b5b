/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: damaged models and schedules. The input is laid over a whole one, bit by bit (exclusive or): they
 * are refused or run, but nothing outside of their memory is touched. */
#include <stddef.h>
#include <string.h>

#include "board.h"
#include "model.h"
#include "poet/board.h"
#include "poet/pager.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reset();
    fuzz_now = fuzz_whole;
    for (size_t i = 0; i < size && i < sizeof fuzz_now; i++) {
        ((uint8_t *)&fuzz_now)[i] ^= data[i];
    }
    fuzz_build();

    poet_runner runner;
    if (poet_runner_init(&runner, &fuzz_model, &fuzz_schedule, &fuzz_built.tables, fuzz_ram, sizeof fuzz_ram) !=
        POET_OK) {
        return 0;
    }
    poet_block_device card;
    poet_pager pager;
    if (poet_board_storage(&card) != POET_OK || poet_pager_open(&pager, &card) != POET_OK) {
        __builtin_trap();
    }
    poet_run run = {.pager = &pager, .learning_rate = 0.5f, .trace = size % 2u != 0};
    for (int i = 0; i < 2; i++) {
        (void)poet_runner_step(&runner, &run);
    }
    return 0;
}
