/* SPDX-License-Identifier: Apache-2.0 */
#include "nrf52840.h"

#include <string.h>

enum {
    SPIM0 = 0x40003000,
    SPIM_TASKS_START = 0x010,
    SPIM_EVENTS_END = 0x118,
    SPIM_INTENSET = 0x304,
    SPIM_INTENCLR = 0x308,
    SPIM_RXD_PTR = 0x534,
    SPIM_RXD_MAXCNT = 0x538,
    SPIM_TXD_PTR = 0x544,
    SPIM_TXD_MAXCNT = 0x548,
    TIMER0 = 0x40008000,
    TIMER_TASKS_CAPTURE_0 = 0x040,
    TIMER_EVENTS_COMPARE_1 = 0x144,
    TIMER_EVENTS_COMPARE_2 = 0x148,
    TIMER_INTENSET = 0x304,
    TIMER_INTENCLR = 0x308,
    TIMER_CC_0 = 0x540,
    TIMER_CC_1 = 0x544,
    TIMER_CC_2 = 0x548,
};

#define PAGE_BYTES 0x1000u
#define SPIM_IRQ 3u
#define TIMER_IRQ 8u
#define SPIM_END (1u << 6)
#define TIMER_COMPARE_1 (1u << 17)
#define TIMER_COMPARE_2 (1u << 18)
#define MOST_BYTES 1024u /* of a transfer that is moved here */

static uint64_t now(const struct nrf52840 *chip)
{
    return chip->machine->counter->cycles;
}

/* --- timer --- */

static uint32_t ticks(const struct nrf52840 *chip)
{
    return (uint32_t)((now(chip) - chip->timer.started_at) / chip->timer.cycles_a_tick);
}

static uint64_t due(const struct nrf52840 *chip, uint32_t value)
{
    const uint64_t left = (uint64_t)(uint32_t)(value - ticks(chip) - 1u) + 1u;

    return now(chip) + left * chip->timer.cycles_a_tick;
}

static uint32_t event(const struct nrf52840 *chip, uint64_t *due_at, uint32_t *compare)
{
    if (now(chip) >= *due_at) {
        *compare = 1;
        *due_at += (uint64_t)chip->timer.cycles_a_tick << 32;
    }
    return *compare;
}

static bool timer_load(struct nrf52840 *chip, uint32_t place, uint32_t *value)
{
    struct nrf52840_timer *timer = &chip->timer;

    switch (place) {
    case TIMER_EVENTS_COMPARE_1:
        *value = event(chip, &timer->due1, &timer->compare1);
        return true;
    case TIMER_EVENTS_COMPARE_2:
        *value = event(chip, &timer->due2, &timer->compare2);
        return true;
    case TIMER_CC_0:
        *value = timer->cc0;
        return true;
    default:
        return false;
    }
}

static bool timer_store(struct nrf52840 *chip, uint32_t place, uint32_t value)
{
    struct nrf52840_timer *timer = &chip->timer;

    if (timer->cycles_a_tick == 0) {
        return false;
    }
    switch (place) {
    case TIMER_TASKS_CAPTURE_0:
        timer->cc0 = ticks(chip);
        return true;
    case TIMER_EVENTS_COMPARE_1:
        timer->compare1 = value;
        return true;
    case TIMER_EVENTS_COMPARE_2:
        timer->compare2 = value;
        return true;
    case TIMER_INTENSET:
        timer->interrupts |= value;
        return true;
    case TIMER_INTENCLR:
        timer->interrupts &= ~value;
        return true;
    case TIMER_CC_1:
        timer->cc1 = value;
        timer->due1 = due(chip, value);
        return true;
    case TIMER_CC_2:
        timer->cc2 = value;
        timer->due2 = due(chip, value);
        return true;
    default:
        return false;
    }
}

static bool timer_wakes(const struct nrf52840_timer *timer, uint64_t *when)
{
    const bool first = (timer->interrupts & TIMER_COMPARE_1) != 0 && timer->due1 != UINT64_MAX;
    const bool second = (timer->interrupts & TIMER_COMPARE_2) != 0 && timer->due2 != UINT64_MAX;

    *when = first && (!second || timer->due1 < timer->due2) ? timer->due1 : timer->due2;
    return first || second;
}

/* --- SPIM --- */

static bool spim_interrupts(const struct nrf52840 *chip, uint64_t *when)
{
    const struct nrf52840_spim *spim = &chip->spim;

    *when = spim->events_end != 0 ? now(chip) : spim->end;
    return (spim->interrupts & SPIM_END) != 0 && (spim->events_end != 0 || spim->busy);
}

static void schedule(const struct nrf52840 *chip)
{
    uint64_t when;

    if (spim_interrupts(chip, &when)) {
        interrupt_at(chip->machine, when);
    }
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The bytes of a transfer move, all at its end. False if Python has to do it. */
static bool move(struct nrf52840 *chip, bool polled)
{
    struct nrf52840_spim *spim = &chip->spim;
    const struct engine *engine = &chip->machine->engine;
    const uint32_t count = most(spim->send_bytes, spim->receive_bytes);
    uint8_t sent[MOST_BYTES], received[MOST_BYTES];

    if (!chip->bus.card->driven || count > MOST_BYTES) {
        return false;
    }
    memset(sent, spim->over_read, count);
    if (spim->send_bytes > 0) {
        engine->read_memory(engine->handle, spim->send, sent, spim->send_bytes);
    }
    if (polled) {
        advance_to(chip->machine->counter, spi_poll(&chip->bus, sent, received, count, spim->begin, spim->byte_cycles));
    } else {
        card_exchange(chip->bus.card, sent, received, count, spim->begin, spim->byte_cycles);
    }
    if (spim->receive_bytes > 0) {
        engine->write_memory(engine->handle, spim->receive, received, spim->receive_bytes);
    }
    spim->busy = 0;
    spim->events_end = 1;
    return true;
}

static bool spim_load(struct nrf52840 *chip, uint32_t place, uint32_t *value)
{
    struct nrf52840_spim *spim = &chip->spim;
    const bool polled = (spim->interrupts & SPIM_END) == 0;

    if (place != SPIM_EVENTS_END) {
        return false;
    }
    if (spim->busy && (polled || now(chip) >= spim->end) && !move(chip, polled)) {
        return false;
    }
    *value = spim->events_end;
    return true;
}

/* False if anything about it is for Python to judge. */
static bool spim_start(struct nrf52840 *chip)
{
    struct nrf52840_spim *spim = &chip->spim;

    if (!spim->ready || spim->busy || spim->txd_maxcnt > MOST_BYTES || spim->rxd_maxcnt > MOST_BYTES ||
        (spim->txd_maxcnt > 0 && !in_ram(chip->machine, spim->txd_ptr, spim->txd_maxcnt)) ||
        (spim->rxd_maxcnt > 0 && !in_ram(chip->machine, spim->rxd_ptr, spim->rxd_maxcnt))) {
        return false;
    }
    spim->begin = now(chip);
    spim->end = spim->begin + most(spim->txd_maxcnt, spim->rxd_maxcnt) * spim->byte_cycles;
    spim->send = spim->txd_ptr;
    spim->send_bytes = spim->txd_maxcnt;
    spim->receive = spim->rxd_ptr;
    spim->receive_bytes = spim->rxd_maxcnt;
    spim->busy = 1;
    schedule(chip);
    return true;
}

static bool spim_store(struct nrf52840 *chip, uint32_t place, uint32_t value)
{
    struct nrf52840_spim *spim = &chip->spim;

    switch (place) {
    case SPIM_TASKS_START:
        return spim_start(chip);
    case SPIM_EVENTS_END:
        spim->events_end = value;
        return true;
    case SPIM_INTENSET:
        spim->interrupts |= value;
        schedule(chip);
        return true;
    case SPIM_INTENCLR:
        spim->interrupts &= ~value;
        return true;
    case SPIM_TXD_PTR:
        spim->txd_ptr = value;
        return true;
    case SPIM_TXD_MAXCNT:
        spim->txd_maxcnt = value;
        return true;
    case SPIM_RXD_PTR:
        spim->rxd_ptr = value;
        return true;
    case SPIM_RXD_MAXCNT:
        spim->rxd_maxcnt = value;
        return true;
    default:
        return false;
    }
}

/* --- chip --- */

bool nrf52840_load(void *context, uint32_t address, uint32_t width, uint32_t *value)
{
    struct nrf52840 *chip = context;
    const uint32_t page = address & ~(PAGE_BYTES - 1u);
    const uint32_t place = address - page;

    return width == 4 &&
           ((page == SPIM0 && spim_load(chip, place, value)) || (page == TIMER0 && timer_load(chip, place, value)));
}

bool nrf52840_store(void *context, uint32_t address, uint32_t width, uint32_t value)
{
    struct nrf52840 *chip = context;
    const uint32_t page = address & ~(PAGE_BYTES - 1u);
    const uint32_t place = address - page;

    if (width == 4 &&
        ((page == SPIM0 && spim_store(chip, place, value)) || (page == TIMER0 && timer_store(chip, place, value)) ||
         (page == NVIC_PAGE && nvic_store(chip->nvic, address, value)))) {
        return true;
    }
    chip->spim.ready = 0; /* it may be a register that the next start hangs on */
    return false;
}

bool nrf52840_next_interrupt(void *context, uint64_t *when, uint32_t *number)
{
    const struct nrf52840 *chip = context;
    uint64_t timer_at = 0, spim_at = 0;
    const bool timer = (chip->nvic->enabled >> TIMER_IRQ & 1u) != 0 && timer_wakes(&chip->timer, &timer_at);
    const bool spim = (chip->nvic->enabled >> SPIM_IRQ & 1u) != 0 && spim_interrupts(chip, &spim_at);

    if (spim && (!timer || spim_at <= timer_at)) { /* at once, the lower number comes first */
        *when = spim_at;
        *number = SPIM_IRQ;
    } else if (timer) {
        *when = timer_at;
        *number = TIMER_IRQ;
    }
    return timer || spim;
}
