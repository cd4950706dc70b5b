/* Counts cycles: the engine calls on_block at the start of every translated block. The host's compiler builds this at
 * run time; cycles.py holds the same few lines in Python for machines that have none.
 *
 * A block is entered whole: what it costs is the difference of two prefix sums over the image. A jump, that is a block
 * which does not begin where the last one ended, also costs the refill of the pipeline.
 */
#include <stdint.h>

struct counter {
    uint64_t cycles;
    uint64_t limit;        /* stop at the first block at or after this */
    uint32_t expected;     /* where the last block ended */
    uint32_t refill;
    uint32_t begin, end;   /* addresses that `prefix` covers */
    uint32_t stopped;
    uint32_t strayed;      /* an address outside of them, and 1 */
    const uint32_t *prefix;
    int (*stop)(void *engine);
};

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
}
