/* SPDX-License-Identifier: Apache-2.0 */
#include "runner_parts.h"

#include "poet/crc32.h"

static uint32_t parts(const poet_schedule *schedule)
{
    return (schedule->call_count + POET_TRACE_ROWS - 1u) / POET_TRACE_ROWS;
}

void poet_trace_place(poet_runner *runner, uint32_t ram_bytes)
{
    const uint32_t taken = (runner->schedule->ram_bytes + 3u) / 4u * 4u;
    if (taken <= ram_bytes && parts(runner->schedule) <= (ram_bytes - taken) / sizeof *runner->trace) {
        runner->trace = (poet_trace_part *)(void *)(runner->ram + taken);
        runner->trace_in_ram = true;
    }
}

uint32_t poet_runner_card_blocks(const poet_schedule *schedule)
{
    return schedule->page_blocks + parts(schedule);
}

void poet_runner_forget_trace(poet_runner *runner)
{
    runner->traced = false;
}

/* Keeps the line low for 30 us: a meter that samples every 10 us must see where one window ends and the next begins. */
static void pause_between_windows(const poet_run *run)
{
    if (run->hooks == NULL || run->hooks->ticks == NULL) {
        return;
    }
    const uint32_t start = run->hooks->ticks();
    while (run->hooks->ticks() - start <= run->hooks->ticks_hz / 33333u) {
    }
}

/* Keeps what a call took. A part that is full, or the last one, goes to the card, where the trace is there: between two
 * windows, while the bus is idle. Its failure loses the trace and not the step, in which weights may have changed by
 * now. */
static void keep_ticks(poet_runner *runner, const poet_run *run, uint32_t call, uint32_t ticks)
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

int poet_trace_call(poet_runner *runner, poet_run *run)
{
    const uint32_t call = run->calls;
    const uint64_t before = run->ticks;
    const bool changes = (runner->schedule->calls[call].flags & POET_CHANGES) != 0;
    const bool is_made = !(changes && poet_is_gathering(runner));
    if (is_made) {
        pause_between_windows(run);
        poet_set_window(run, true);
        run->before = poet_ticks_now(run);
    }
    const int status = poet_make_calls(runner, run, true);
    if (is_made) {
        poet_set_window(run, false);
    }
    if (status == POET_OK) {
        keep_ticks(runner, run, call, (uint32_t)(run->ticks - before));
        run->before = poet_ticks_now(run);
    }
    return status;
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
