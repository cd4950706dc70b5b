/* SPDX-License-Identifier: Apache-2.0 */
/* Counts cycles: the engine calls on_block at the start of every translated block, and on_read for every read of the
 * flash where the flash has wait states.
 *
 * A block is entered whole: what it costs is the difference of two prefix sums over the image. A jump, that is a block
 * which does not begin where the last one ended, also costs the refill of the pipeline. A line of flash that is fetched
 * or read and not in the cache costs the flash's wait.
 */
#include "counter.h"

static void touch(struct counter *counter, uint32_t line)
{
    uint32_t *const kept = &counter->lines[line % LINES];
    if (*kept != line) {
        *kept = line;
        counter->cycles += counter->flash_wait;
    }
}

void on_block(void *engine, uint64_t address, uint32_t size, struct counter *counter)
{
    const uint32_t begin = (uint32_t)address;
    const uint32_t end = begin + size;

    if (counter->cycles >= counter->limit) {
        counter->stopped = 1; /* not charged: the block will be entered again */
        counter->stop(engine);
        return;
    }
    if (begin < counter->begin || end > counter->end) {
        counter->strayed = begin | 1u;
        counter->stop(engine);
        return;
    }
    if (begin != counter->expected) {
        counter->cycles += counter->refill;
    }
    counter->cycles += counter->prefix[(end - counter->begin) / 2] - counter->prefix[(begin - counter->begin) / 2];
    counter->expected = end;
    if (counter->flash_wait != 0) {
        for (uint32_t line = begin / LINE_BYTES; line * LINE_BYTES < end; line++) {
            touch(counter, line);
        }
    }
}

void on_read(void *engine, int type, uint64_t address, int size, int64_t value, struct counter *counter)
{
    (void)engine;
    (void)type;
    (void)size; /* at most a word, and aligned: one line */
    (void)value;
    touch(counter, (uint32_t)address / LINE_BYTES);
}
