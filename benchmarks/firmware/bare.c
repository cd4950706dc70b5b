/* SPDX-License-Identifier: Apache-2.0 */
/* The least around a function so that it runs on an emulated core: the benchmark puts a call into `call`, and reads its
 * result when the store to DONE has stopped the core. */
#include <stdint.h>

#define DONE (*(volatile uint32_t *)0x40000000u)

typedef uint32_t (*function)(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t);

extern uint32_t stack_end[];

volatile struct {
    function function;
    uint32_t arguments[6];
    uint32_t result;
} call;

__attribute__((noreturn)) static void reset(void)
{
    call.result = call.function(call.arguments[0], call.arguments[1], call.arguments[2], call.arguments[3],
                                call.arguments[4], call.arguments[5]);
    for (;;) {
        DONE = 1;
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {stack_end, (const void *)reset};
