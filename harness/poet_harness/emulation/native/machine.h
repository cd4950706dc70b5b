/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's loop: runs the engine, takes interrupts, sleeps. What happens rarely is done in machine.py: resets, faults,
 * everything that ends an emulation. */
#ifndef EMULATION_MACHINE_H
#define EMULATION_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counter.h"

#define SLEEPS_KEPT 4096u
#define INTERRUPTS 4u /* at most, of a chip */

/* Unicorn's functions. */
struct engine {
    void *handle;
    int (*start)(void *engine, uint64_t begin, uint64_t until, uint64_t timeout, size_t count);
    int (*read_register)(void *engine, int number, void *value);
    int (*write_register)(void *engine, int number, const void *value);
    int (*read_memory)(void *engine, uint64_t address, void *bytes, size_t count);
    int (*write_memory)(void *engine, uint64_t address, const void *bytes, size_t count);
    int (*save)(void *engine, void *context);
    int (*restore)(void *engine, void *context);
};

/* Unicorn's numbers of them. */
struct registers {
    int sp, lr, pc, xpsr, primask, fpscr; /* fpscr: 0 where there is no FPU */
};

struct sleep {
    uint64_t begin, end;
};

/* An interrupt that a peripheral may raise. */
struct interrupt {
    const void *peripheral;
    /* When it is or will be pending; false if never. */
    bool (*pending_at)(const void *peripheral, uint64_t now, uint64_t *when);
    uint32_t number;
};

/* The interrupt controller's registers; core_registers.py. */
struct nvic {
    uint32_t enabled;
};

struct machine {
    struct engine engine;
    struct registers registers;
    struct counter *counter;
    void *before_handler; /* the engine's context */
    const struct nvic *nvic;
    struct interrupt interrupts[INTERRUPTS];
    uint32_t interrupt_count;
    uint32_t ram_begin, ram_end;
    uint32_t entry_table;
    uint32_t frame_bytes, entry_cycles, exit_cycles;
    uint8_t in_handler;
    uint8_t reset_wanted, pause_wanted, failed;
    /* Python has looked at every register on which a transfer to the card, or a byte from the host, depends. */
    uint8_t spi_checked, serial_checked;
    uint32_t fault; /* Unicorn's error, where MACHINE_FAULT is returned */
    uint32_t sleep_count;
    struct sleep sleeps[SLEEPS_KEPT]; /* those that Python has not taken yet */
};

enum machine_outcome {
    MACHINE_RAN,    /* to the end of its time, or to a pause */
    MACHINE_WANTED, /* a reset, or something failed */
    MACHINE_FAULT,  /* of the CPU */
    MACHINE_SLEEPS, /* in a way that Python looks at */
    MACHINE_VECTOR, /* an interrupt is due that has no handler */
};

enum machine_outcome machine_run(struct machine *machine, uint64_t until);

/* When the next interrupt that is enabled is or will be pending, and its number; false if none ever. */
bool machine_next_interrupt(const struct machine *machine, uint64_t *when, uint32_t *number);

/* False where Python has to do it, or to say why it cannot be done. */
typedef bool load_function(void *peripheral, uint32_t offset, uint32_t width, uint32_t *value);
typedef bool store_function(void *peripheral, uint32_t offset, uint32_t width, uint32_t value);

load_function nvic_load;
store_function nvic_store;

/* A page of registers. Those that are touched all the time are handled here, all others in Python. */
struct page {
    struct machine *machine;
    uint32_t base;
    uint32_t peripheral_base;
    void *peripheral;
    load_function *load; /* NULL where a page has no such registers, and `store` too */
    store_function *store;
    uint32_t (*load_in_python)(uint32_t address, uint32_t width);
    void (*store_in_python)(uint32_t address, uint32_t width, uint32_t value);
};

uint64_t page_load(void *engine, uint64_t offset, unsigned width, void *page);
void page_store(void *engine, uint64_t offset, unsigned width, uint64_t value, void *page);

static inline bool in_ram(const struct machine *machine, uint32_t address, uint32_t count)
{
    return machine->ram_begin <= address && (uint64_t)address + count <= machine->ram_end;
}

/* A peripheral will raise its interrupt then: look no later. */
static inline void interrupt_at(struct machine *machine, uint64_t cycles)
{
    if (cycles < machine->counter->limit) {
        machine->counter->limit = cycles;
    }
}

#endif
