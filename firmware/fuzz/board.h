/* SPDX-License-Identifier: Apache-2.0 */
/* The board and the card that the fuzz targets run on: everything in memory, forgotten between two inputs. */
#ifndef POET_FUZZ_BOARD_H
#define POET_FUZZ_BOARD_H

#include "poet/block_device.h"

#define FUZZ_RAM_BYTES 32768u
#define FUZZ_CARD_BLOCKS (2048u + 16u)

extern uint64_t fuzz_ram[FUZZ_RAM_BYTES / 8u];
extern uint8_t fuzz_card[FUZZ_CARD_BLOCKS * POET_BLOCK_BYTES];

/* Every bit that is set makes one transfer fail, lowest bit first; from then on transfers succeed. */
extern uint32_t fuzz_card_faults;

/* A labelled, otherwise empty card without faults; RAM of zeros. */
void fuzz_reset(void);

#endif
