/* SPDX-License-Identifier: Apache-2.0 */
/* Reset and vector table of every Cortex-M board here, and the stack's paint. */
#include "startup.h"

#include <stdint.h>

#include "core.h"
#include "failure.h"
#include "poet/board.h"

extern uint32_t poet_stack_start[], poet_stack_top[];
extern const uint32_t poet_data_load[];
typedef void (*constructor)(void);
extern const constructor poet_constructors[], poet_constructors_end[];
extern uint32_t poet_data_start[], poet_data_end[], poet_bss_start[], poet_bss_end[];

int main(void);
void poet_reset(void);

#define STACK_PAINT 0xA5A5A5A5u
#define POET_VECTOR_MARK ((vector)0x74656F70u) /* "poet" */
#define FRAME_WORDS 16u
#define GUARD_WORDS 4u /* at the end of the stack; looked at in every idle round, so few */

/* The first 16 entries, the core's own. Nobody may be watching a fault: the board starts again, and `hello` tells. A
 * board that takes interrupts has theirs in .vectors.interrupts. Entry 7 is reserved; the word there tells an upload
 * tool that what lies on the board is this firmware and no bootloader (harness/poet_harness/upload_tools.py). */
typedef void (*vector)(void);
extern const vector poet_vectors[16];
__attribute__((section(".vectors"), used)) const vector poet_vectors[16] = {
    (vector)poet_stack_top, poet_reset,       failure_handler, failure_handler, failure_handler, failure_handler,
    failure_handler,        POET_VECTOR_MARK, failure_handler, failure_handler, failure_handler, failure_handler,
    failure_handler,        failure_handler,  failure_handler, failure_handler,
};

/* Words between two of the linker's marks. */
static uint32_t words(const uint32_t *begin, const uint32_t *end)
{
    return (uint32_t)(((uintptr_t)end - (uintptr_t)begin) / sizeof *begin);
}

/* For a board that has nothing to do so early. */
__attribute__((weak)) void startup_first(void)
{
}

void poet_reset(void)
{
    startup_first();
    SCB_VTOR = (uint32_t)(uintptr_t)poet_vectors;
#ifdef __ARM_FP
    SCB_CPACR |= SCB_CPACR_CP10_CP11_FULL;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
    /* This function's own frame, above the paint, stays as it is. */
    volatile uint32_t *const stack = poet_stack_start;
    const uint32_t unused = words(poet_stack_start, (const uint32_t *)__builtin_frame_address(0)) - FRAME_WORDS;
    for (uint32_t i = 0u; i < unused; i++) {
        stack[i] = STACK_PAINT;
    }
    volatile uint32_t *const data = poet_data_start;
    for (uint32_t i = 0u; i < words(poet_data_start, poet_data_end); i++) {
        data[i] = poet_data_load[i];
    }
    volatile uint32_t *const bss = poet_bss_start;
    for (uint32_t i = 0u; i < words(poet_bss_start, poet_bss_end); i++) {
        bss[i] = 0u;
    }
    failure_take();
    for (const constructor *one = poet_constructors; one != poet_constructors_end; one++) {
        (*one)(); /* of an application's C++ objects */
    }
    (void)main();
    failure_restart(FAILURE_FAULT, 0u);
}

void startup_check_stack(void)
{
    for (uint32_t i = 0u; i < GUARD_WORDS; i++) {
        if (poet_stack_start[i] != STACK_PAINT) {
            failure_restart(FAILURE_STACK, 0u);
        }
    }
}

uint32_t poet_board_stack_peak(void)
{
    const uint32_t depth = words(poet_stack_start, poet_stack_top);
    uint32_t unused = 0u;

    while (unused < depth && poet_stack_start[unused] == STACK_PAINT) {
        unused++;
    }
    return (depth - unused) * (uint32_t)sizeof *poet_stack_start;
}
