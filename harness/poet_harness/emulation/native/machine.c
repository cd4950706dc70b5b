/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#define FOREVER 0xFFFFFFFFu
#define EXCEPTION_RETURN 0xFFFFFFF9u
#define IF_THEN 0x0600FC00u /* the part of xPSR that says how far an IT block has come */
#define FLOAT_FLAGS 0x9Fu

enum { NVIC_ISER0 = 0x100, NVIC_ICER0 = 0x180, NVIC_ICPR0 = 0x280, NVIC_ICPR1 = 0x284 };

static uint32_t read_register(const struct machine *machine, int number)
{
    uint64_t value = 0;

    machine->engine.read_register(machine->engine.handle, number, &value);
    return (uint32_t)value;
}

static void write_register(const struct machine *machine, int number, uint32_t value)
{
    const uint64_t wide = value;

    machine->engine.write_register(machine->engine.handle, number, &wide);
}

/* Exception entry (Armv7-M Architecture Reference Manual, B1.5.6). What the frame holds is kept aside. */
static bool enter_handler(struct machine *machine, uint32_t number)
{
    const struct engine *engine = &machine->engine;
    uint32_t handler = 0;

    engine->read_memory(engine->handle, machine->entry_table + 4u * (16u + number), &handler, sizeof handler);
    if ((handler & 1u) == 0) {
        return false;
    }
    engine->save(engine->handle, machine->before_handler);
    machine->in_handler = 1;
    const uint32_t stack = (read_register(machine, machine->registers.sp) - machine->frame_bytes) & ~7u;
    write_register(machine, machine->registers.xpsr, read_register(machine, machine->registers.xpsr) & ~IF_THEN);
    write_register(machine, machine->registers.sp, stack);
    write_register(machine, machine->registers.lr, EXCEPTION_RETURN);
    write_register(machine, machine->registers.pc, handler & ~1u);
    machine->counter->cycles += machine->entry_cycles;
    machine->counter->expected = handler & ~1u;
    return true;
}

/* Exception return (B1.5.8). */
static void leave_handler(struct machine *machine)
{
    machine->engine.restore(machine->engine.handle, machine->before_handler);
    machine->in_handler = 0;
    machine->counter->cycles += machine->exit_cycles;
    machine->counter->expected = read_register(machine, machine->registers.pc);
}

bool machine_next_interrupt(const struct machine *machine, uint64_t *when, uint32_t *number)
{
    bool found = false;

    for (uint32_t i = 0; i < machine->interrupt_count; i++) {
        const struct interrupt *interrupt = &machine->interrupts[i];
        uint64_t at;
        if ((machine->nvic->enabled >> interrupt->number & 1u) == 0 ||
            !interrupt->pending_at(interrupt->peripheral, machine->counter->cycles, &at)) {
            continue;
        }
        if (!found || at < *when || (at == *when && interrupt->number < *number)) {
            *when = at;
            *number = interrupt->number;
        }
        found = true;
    }
    return found;
}

/* Takes an interrupt that is due, and says when to look again. False if it has no handler. */
static bool arm(struct machine *machine, uint64_t until)
{
    struct counter *counter = machine->counter;
    uint64_t when;
    uint32_t number;

    counter->limit = until;
    if (machine->in_handler || !machine_next_interrupt(machine, &when, &number)) {
        return true;
    }
    if (when > counter->cycles) {
        interrupt_at(machine, when);
    } else if (read_register(machine, machine->registers.primask) != 0) {
        counter->limit = counter->cycles + 1; /* block by block, until the CPU lets it in */
    } else {
        return enter_handler(machine, number);
    }
    return true;
}

/* The engine has stopped at a wfi. False if Python has to look at it. */
static bool sleep(struct machine *machine)
{
    struct counter *counter = machine->counter;
    uint64_t wake;
    uint32_t number;

    if (!machine_next_interrupt(machine, &wake, &number)) {
        return false;
    }
    if (wake <= counter->cycles) {
        return true;
    }
    if (machine->sleep_count == SLEEPS_KEPT ||
        (machine->registers.fpscr != 0 && (read_register(machine, machine->registers.fpscr) & FLOAT_FLAGS) != 0)) {
        return false;
    }
    machine->sleeps[machine->sleep_count++] = (struct sleep){counter->cycles, wake};
    counter->cycles = wake;
    return true;
}

enum machine_outcome machine_run(struct machine *machine, uint64_t until)
{
    struct counter *counter = machine->counter;

    while (!machine->reset_wanted && !machine->failed) {
        if (!arm(machine, until)) {
            return MACHINE_VECTOR;
        }
        counter->stopped = 0;
        counter->strayed = 0;
        const uint32_t begin = read_register(machine, machine->registers.pc);
        const int error = machine->engine.start(machine->engine.handle, begin | 1u, FOREVER, 0, 0);
        if (error != 0) {
            if (!machine->in_handler || read_register(machine, machine->registers.pc) != (EXCEPTION_RETURN & ~1u)) {
                machine->fault = (uint32_t)error;
                return MACHINE_FAULT;
            }
            leave_handler(machine);
        } else if (counter->strayed != 0 || machine->failed) {
            return MACHINE_WANTED;
        } else if (counter->stopped == 0) {
            if (!sleep(machine)) {
                return MACHINE_SLEEPS;
            }
            continue;
        }
        if (machine->pause_wanted || counter->cycles >= until) {
            return MACHINE_RAN;
        }
    }
    return MACHINE_WANTED;
}

bool nvic_load(void *peripheral, uint32_t offset, uint32_t width, uint32_t *value)
{
    const struct nvic *nvic = peripheral;

    if (width != 4 || (offset != NVIC_ISER0 && offset != NVIC_ICER0)) {
        return false;
    }
    *value = nvic->enabled;
    return true;
}

bool nvic_store(void *peripheral, uint32_t offset, uint32_t width, uint32_t value)
{
    struct nvic *nvic = peripheral;

    if (width != 4) {
        return false;
    }
    switch (offset) {
    case NVIC_ISER0:
        nvic->enabled |= value;
        return true;
    case NVIC_ICER0:
        nvic->enabled &= ~value;
        return true;
    case NVIC_ICPR0: /* what is pending is seen at the peripheral itself */
    case NVIC_ICPR1:
        return true;
    default:
        return false;
    }
}

uint64_t page_load(void *engine, uint64_t offset, unsigned width, void *where)
{
    const struct page *page = where;
    const uint32_t address = page->base + (uint32_t)offset;
    uint32_t value;

    (void)engine;
    if (page->load != NULL && page->load(page->peripheral, address - page->peripheral_base, width, &value)) {
        return value;
    }
    return page->load_in_python(address, width);
}

void page_store(void *engine, uint64_t offset, unsigned width, uint64_t value, void *where)
{
    const struct page *page = where;
    const uint32_t address = page->base + (uint32_t)offset;

    (void)engine;
    if (page->store == NULL ||
        !page->store(page->peripheral, address - page->peripheral_base, width, (uint32_t)value)) {
        page->machine->spi_checked = page->machine->serial_checked = 0;
        page->store_in_python(address, width, (uint32_t)value);
    }
}
