/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include "poet/crc32.h"

/* Keeps what a call took. A part that is full, or the last one, goes to the card, where the trace is there: between two
 * windows, while the bus is idle. Its failure loses the trace and not the step, in which weights may have changed by
 * now. */
void poet_keep_ticks(poet_runner *runner, const poet_run *run, uint32_t call, uint32_t ticks)
{
    const uint32_t place = call % POET_TRACE_ROWS;
    const uint32_t number = call / POET_TRACE_ROWS;
    poet_trace_part *part = &runner->trace[runner->trace_in_ram ? number : 0];
    part->ticks[place] = ticks;
    if (runner->trace_in_ram || !runner->traced ||
        (place + 1u < POET_TRACE_ROWS && call + 1u < runner->schedule->call_count)) {
        return;
    }
    part->number = number;
    part->crc = poet_crc32(0, part, sizeof *part - sizeof part->crc);
    uint32_t crc;
    runner->traced = poet_pager_start_out(run->pager, run->pager->page_area + runner->schedule->page_blocks + number,
                                          part, sizeof *part, &crc) == POET_OK &&
                     poet_pager_wait(run->pager) == POET_OK;
}

static bool is_whole(const poet_trace_part *part, uint32_t number)
{
    return part->number == number && part->crc == poet_crc32(0, part, sizeof *part - sizeof part->crc);
}

int poet_runner_read_trace(poet_runner *runner, poet_pager *pager, uint32_t call, uint32_t *ticks)
{
    const uint32_t number = call / POET_TRACE_ROWS;
    poet_trace_part *part = &runner->trace[runner->trace_in_ram ? number : 0];
    if (!runner->traced) {
        return POET_E_ABSENT;
    }
    if (call >= runner->schedule->call_count) {
        return POET_E_ARGUMENT;
    }
    if (!runner->trace_in_ram && !is_whole(part, number)) {
        const uint32_t block = pager->page_area + runner->schedule->page_blocks + number;
        const int status = poet_pager_read(pager, block, part, sizeof *part);
        if (status != POET_OK || !is_whole(part, number)) {
            return status != POET_OK ? status : POET_E_CORRUPT;
        }
    }
    *ticks = part->ticks[call % POET_TRACE_ROWS];
    return POET_OK;
}
