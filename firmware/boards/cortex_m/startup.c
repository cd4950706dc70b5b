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

void poet_reset(void)
{
    SCB_VTOR = (uint32_t)(uintptr_t)poet_vectors;
#ifdef __ARM_FP
    SCB_CPACR |= SCB_CPACR_CP10_CP11_FULL;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
    /* This function's own frame lies above the paint. */
    const uint32_t *const frame = (const uint32_t *)__builtin_frame_address(0) - 16;
    for (volatile uint32_t *word = poet_stack_start; word < frame; word++) {
        *word = STACK_PAINT;
    }
    const uint32_t *from = poet_data_load;
    for (volatile uint32_t *to = poet_data_start; to < poet_data_end; to++) {
        *to = *from++;
    }
    for (volatile uint32_t *word = poet_bss_start; word < poet_bss_end; word++) {
        *word = 0u;
    }
    (void)main();
    fault();
}

uint32_t poet_board_stack_peak(void)
{
    const uint32_t *word = poet_stack_start;

    while (word < poet_stack_top && *word == STACK_PAINT) {
        word++;
    }
    return (uint32_t)((uintptr_t)poet_stack_top - (uintptr_t)word);
}
