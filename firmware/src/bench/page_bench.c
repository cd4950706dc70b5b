/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/bench.h"
#include "poet/board.h"

/* The place of transfer i. The scattered ones are spread over the page area by a multiplicative hash. */
static uint32_t place(const poet_pager *pager, const poet_page_bench *bench, uint32_t i)
{
    const uint32_t blocks = (bench->bytes - 1u) / POET_BLOCK_BYTES + 1u;
    const uint32_t slots = poet_pager_blocks(pager) / blocks;
    const uint32_t slot = bench->scattered ? i * 2654435761u : i;
    return pager->page_area + slot % slots * blocks;
}

int poet_bench_page(poet_pager *pager, uint8_t *ram, uint32_t ram_bytes, poet_page_bench *bench)
{
    if (bench->bytes == 0 || bench->repeats == 0) {
        return POET_E_ARGUMENT;
    }
    if (bench->bytes > ram_bytes) {
        return POET_E_MEMORY;
    }
    if ((bench->bytes - 1u) / POET_BLOCK_BYTES + 1u > poet_pager_blocks(pager)) {
        return POET_E_FULL;
    }

    uint32_t crc = 0;
    int status = POET_OK;
    if (bench->in) { /* what will be read must be there first */
        for (uint32_t i = 0; status == POET_OK && i < bench->repeats; i++) {
            status = poet_pager_out(pager, place(pager, bench, i), ram, bench->bytes, &crc);
        }
    }
    if (status != POET_OK) {
        return status;
    }

    bench->ticks = 0;
    poet_board_window(true);
    uint32_t before = poet_board_ticks();
    for (uint32_t i = 0; status == POET_OK && i < bench->repeats; i++) {
        status = bench->in ? poet_pager_in(pager, place(pager, bench, i), ram, bench->bytes, crc)
                           : poet_pager_out(pager, place(pager, bench, i), ram, bench->bytes, &crc);
        const uint32_t now = poet_board_ticks();
        bench->ticks += now - before;
        before = now;
    }
    poet_board_window(false);
    return status;
}
