/* SPDX-License-Identifier: Apache-2.0 */
/* Commits 5,120 bytes to the end of the chip's own flash, whenever it is told to. */
#include <poet/board.h>
#include <poet/checkpoint.h>
#include <poet/pager.h>
#include <string.h>

#define WORDS 1280u

static const poet_resident residents[] = {{0, 2u * WORDS, POET_RESIDENT_PARAMETER},
                                          {2u * WORDS, 2u * WORDS, POET_RESIDENT_STATE}};
static const poet_model model = {
    .graph_hash = 5, .resident_bytes = 4u * WORDS, .resident_count = 2, .micro_batches = 1, .residents = residents};
static uint32_t tensors[WORDS], expected[WORDS];

static void fill(uint32_t *words, uint32_t step)
{
    uint32_t random = step;
    for (uint32_t i = 0; i < WORDS; i++) {
        random = random * 1664525u + 1013904223u;
        words[i] = random >> 2; /* no infinity */
    }
}

static void say(char word, uint32_t number)
{
    poet_board_putchar(word);
    for (int shift = 28; shift >= 0; shift -= 4) {
        poet_board_putchar("0123456789abcdef"[number >> shift & 15u]);
    }
    poet_board_putchar('\n');
    poet_board_flush();
}

int main(void)
{
    poet_block_device flash;
    poet_pager pager;
    uint32_t step = 0, bytes;
    poet_board_init();
    int status = poet_board_flash(FLASH_BLOCKS, &flash);
    if (status == POET_OK && poet_pager_open(&pager, &flash) == POET_E_ABSENT) {
        status = poet_pager_format(&flash);
    }
    if (status == POET_OK) {
        status = poet_checkpoint_restore(&flash, &model, 0, (uint8_t *)tensors, NULL, &step, &bytes);
        fill(expected, step);
    }
    const int wrong = status == POET_OK && memcmp(tensors, expected, sizeof tensors) != 0;
    say('r', status == POET_OK && !wrong ? step : (uint32_t)status);
    for (;;) {
        const int told = poet_board_getchar();
        if (told == 'c') {
            fill(tensors, ++step);
            say('c', (uint32_t)poet_checkpoint_commit(&flash, &model, 0, (const uint8_t *)tensors, NULL, step, &bytes));
        } else if (told == 't') {
            say('t', (uint32_t)flash.write(flash.context, 0, tensors, 4)); /* over the label */
        } else if (told == 's') {
            *(volatile uint32_t *)flash.context = 0; /* a store that the controller was not told of */
        }
    }
}
