/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule runner with and without the work that it hands out: operators, checks of pages, transfers. And with a
 * return to the program between two steps of the schedule.
 *
 * The card costs nothing in either case, so that the runner's share of a step comes out larger than on a board. */
#include <string.h>

#include "poet/crc32.h"
#include "poet/operator.h"
#include "poet_model.h"
#include "poet_schedule.h"

static uint32_t without_work;

static int no_work(const poet_op_args *args)
{
    (void)args;
    return POET_OK;
}

/* The schedule, whose operators do nothing if `without_work` says so. */
static const poet_schedule *schedule(void)
{
    enum { COUNT = sizeof poet_built_operators / sizeof *poet_built_operators };
    static poet_operator idle[COUNT];
    static poet_schedule other;
    for (uint32_t i = 0; i < COUNT; i++) {
        idle[i] = poet_built_operators[i];
        idle[i].run = no_work;
    }
    other = poet_built_schedule;
    other.operators = idle;
    return without_work ? &other : &poet_built_schedule;
}

/* Takes the time of a check, and passes: the card gives nothing back. */
static uint32_t passed_check(uint32_t crc, const void *data, uint32_t bytes)
{
    volatile uint32_t result = without_work ? 0 : poet_crc32_quick(crc, data, bytes);
    (void)result;
    return 0;
}

#define poet_crc32 passed_check
#define poet_crc32_quick passed_check
#include "../../firmware/src/runtime/runner.c"

#include "../../firmware/src/runtime/pager.c"
#undef poet_crc32_quick
#undef poet_crc32

static uint32_t count_ticks(void)
{
    static uint32_t ticks;
    return ++ticks;
}

static void set_line(bool inside)
{
    (void)inside;
}

static int read_page(void *context, uint32_t block, void *data, uint32_t bytes)
{
    (void)context;
    (void)block;
    (void)data;
    (void)bytes;
    return POET_OK;
}

static int write_page(void *context, uint32_t block, const void *data, uint32_t bytes)
{
    (void)context;
    (void)block;
    (void)data;
    (void)bytes;
    return POET_OK;
}

static uint64_t ram[(3u << 20) / 8u];
static poet_page pages[POET_BUILT_PAGE_COUNT + 1u]; /* C has no array of none */
static poet_trace_part trace;
static const poet_tables tables = {.pages = pages, .trace = &trace};
static const poet_hooks hooks = {.ticks = count_ticks, .ticks_hz = 1000000u, .window = set_line};

/* RAM begins as noise; labels must make sense. */
void clear_ram(void)
{
    memset(ram, 0, sizeof ram);
}

static int by_pieces(poet_runner *runner, poet_run *run)
{
    int status = poet_runner_begin(runner, run);
    while (status == POET_MORE) {
        status = poet_runner_next(runner, run);
    }
    return status;
}

static int run_by(int (*step)(poet_runner *runner, poet_run *run), uint32_t nothing, const poet_hooks *asked)
{
    static const poet_block_device card = {.block_count = UINT32_MAX, .read = read_page, .write = write_page};
    poet_pager pager = {.device = &card, .page_area = POET_CARD_DATA_BLOCK};
    poet_runner runner;
    without_work = nothing;
    const int status = poet_runner_init(&runner, &poet_built_model, schedule(), &tables, ram, sizeof ram);
    if (status != POET_OK) {
        return status;
    }
    poet_run run = {.pager = &pager, .hooks = asked, .learning_rate = 0.01f};
    return step(&runner, &run);
}

int run_schedule(uint32_t nothing)
{
    return run_by(poet_runner_step, nothing, &hooks);
}

/* All calls in one go, as a program does that asks for nothing between two of them. */
int run_at_once(uint32_t nothing)
{
    return run_by(poet_runner_step, nothing, NULL);
}

int run_by_pieces(void)
{
    return run_by(by_pieces, 0, &hooks);
}

/* What the others do besides the run. */
int check_schedule(void)
{
    poet_runner runner;
    without_work = 1;
    return poet_runner_init(&runner, &poet_built_model, schedule(), &tables, ram, sizeof ram);
}
