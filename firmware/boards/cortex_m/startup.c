/* Reset and faults of every Cortex-M board here, and the stack's paint. */
#include <stdint.h>

#include "core.h"
#include "poet/board.h"

extern uint32_t poet_stack_start[], poet_stack_top[];
extern const uint32_t poet_data_load[];
extern uint32_t poet_data_start[], poet_data_end[], poet_bss_start[], poet_bss_end[];

int main(void);
void poet_reset(void);

#define STACK_PAINT 0xA5A5A5A5u
#define FRAME_WORDS 16u

/* Nobody may be watching: start again, and the host notices a new boot. */
static void fault(void)
{
    SCB_AIRCR = SCB_AIRCR_SYSRESETREQ;
    for (;;) {
    }
}

/* The first 16 entries, the core's own. A board that takes interrupts has theirs in .vectors.interrupts. */
typedef void (*vector)(void);
extern const vector poet_vectors[16];
__attribute__((section(".vectors"), used)) const vector poet_vectors[16] = {
    (vector)poet_stack_top, poet_reset, fault, fault, fault, fault, fault, fault,
    fault, fault, fault, fault, fault, fault, fault, fault,
};

/* Words between two of the linker's marks. */
static uint32_t words(const uint32_t *begin, const uint32_t *end)
{
    return (uint32_t)(((uintptr_t)end - (uintptr_t)begin) / sizeof *begin);
}

void poet_reset(void)
{
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
    (void)main();
    fault();
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
