/* SPDX-License-Identifier: Apache-2.0 */
#include "failure.h"

#include <stddef.h>

#include "core.h"

#define MAGIC 0x7E570F41u
#define WORDS (sizeof(failure) / sizeof(uint32_t))

/* Words of the frame that a Cortex-M pushes when it takes an exception. */
#define FRAME_LR 5u
#define FRAME_PC 6u
#define FRAME_BYTES 32u

typedef struct failure {
    uint32_t magic;
    uint32_t kind;
    uint32_t count; /* since the power came */
    uint32_t pc, lr, status;
    uint32_t waited_for;
    uint32_t check; /* RAM wakes up with noise, and a bootloader may have used it */
} failure;

extern uint32_t poet_stack_start[], poet_stack_top[];

__attribute__((section(".noinit"))) static failure kept;
static failure taken;

static uint32_t checksum(const failure *record)
{
    const uint32_t *words = &record->magic;
    uint32_t sum = 0u;

    for (uint32_t i = 0u; i < WORDS - 1u; i++) {
        sum = (sum << 5 | sum >> 27) ^ words[i];
    }
    return sum;
}

static void keep(failure record)
{
    record.magic = MAGIC;
    record.check = checksum(&record);
    kept = record;
}

void failure_take(void)
{
    if (kept.magic == MAGIC && kept.check == checksum(&kept)) {
        taken = kept;
    }
    keep((failure){.count = taken.count});
}

void failure_report(poet_start *start)
{
    static const char *const causes[] = {
        [FAILURE_FAULT] = "fault",
        [FAILURE_STACK] = "stack",
        [FAILURE_STALL] = "stall",
    };

    start->failures = taken.count;
    if (taken.kind != FAILURE_NONE) {
        start->cause = causes[taken.kind];
        start->pc = taken.pc;
        start->lr = taken.lr;
        start->status = taken.status;
        start->waited_for = taken.waited_for;
    }
}

__attribute__((noreturn)) static void restart(failure record)
{
    record.count = taken.count + 1u;
    keep(record);
    core_restart();
}

void failure_restart(enum failure_kind kind, uint32_t waited_for)
{
    restart((failure){.kind = kind, .waited_for = waited_for});
}

/* `stack` is where the stack pointer was when the fault was taken: below RAM if the stack grew too far. */
__attribute__((noreturn, used)) static void record_fault(const uint32_t *stack)
{
    const uintptr_t place = (uintptr_t)stack;
    failure record = {.kind = FAILURE_FAULT};

    if (place >= (uintptr_t)poet_stack_start && place <= (uintptr_t)poet_stack_top - FRAME_BYTES && place % 4u == 0u) {
        record.pc = stack[FRAME_PC];
        record.lr = stack[FRAME_LR];
    } else {
        record.kind = FAILURE_STACK;
    }
#if defined(SCB_CFSR)
    record.status = SCB_CFSR;
#endif
    restart(record);
}

/* The stack may be what is broken: begin a new one before anything is pushed. */
__attribute__((naked)) void failure_handler(void)
{
    __asm__ volatile("mrs r0, msp\n\t"
                     "ldr r1, =poet_stack_top\n\t"
                     "msr msp, r1\n\t"
                     "ldr r1, =record_fault\n\t"
                     "bx r1\n\t"
                     ".ltorg");
}
