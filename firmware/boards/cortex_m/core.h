/* Registers of the Cortex-M cores themselves: Armv6-M and Armv7-M Architecture Reference Manuals, B3.2 "System Control
 * Space" and B3.4 "Nested Vectored Interrupt Controller".
 */
#ifndef CORTEX_M_CORE_H
#define CORTEX_M_CORE_H

#include <stdint.h>

#define CORE_REGISTER(address) (*(volatile uint32_t *)(address))

#define NVIC_ISER0 CORE_REGISTER(0xE000E100u)
#define NVIC_ICER0 CORE_REGISTER(0xE000E180u)
#define NVIC_ICPR0 CORE_REGISTER(0xE000E280u)
#define SCB_VTOR CORE_REGISTER(0xE000ED08u)
#define SCB_AIRCR CORE_REGISTER(0xE000ED0Cu)
#define SCB_AIRCR_SYSRESETREQ 0x05FA0004u
#define SCB_CPACR CORE_REGISTER(0xE000ED88u)
#define SCB_CPACR_CP10_CP11_FULL (0xFu << 20)

/* Sleeps until interrupt `irq` is pending, without ever taking it: with interrupts masked, a pending one that is
 * enabled in the NVIC still ends wfi. `done` says whether what is waited for has happened. The peripheral's event is
 * clear when this is called; a request left from before would keep the CPU awake. */
static inline void core_sleep_until(uint32_t irq, int (*done)(void))
{
    const uint32_t bit = 1u << irq;

    __asm__ volatile("cpsid i" ::: "memory");
    NVIC_ICPR0 = bit;
    NVIC_ISER0 = bit;
    while (!done()) {
        __asm__ volatile("dsb\n\twfi" ::: "memory");
    }
    NVIC_ICER0 = bit;
    __asm__ volatile("cpsie i" ::: "memory");
}

/* Sleeps until an interrupt has been taken, unless *busy is 0 already. */
static inline void core_sleep_while(const volatile uint8_t *busy)
{
    __asm__ volatile("cpsid i" ::: "memory");
    if (*busy != 0u) {
        __asm__ volatile("dsb\n\twfi" ::: "memory");
    }
    __asm__ volatile("cpsie i\n\tisb" ::: "memory");
}

#endif
