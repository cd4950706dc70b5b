/* SPDX-License-Identifier: Apache-2.0 */
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
#define NVIC_ICPR(word) CORE_REGISTER(0xE000E280u + 4u * (word))
#define SCB_VTOR CORE_REGISTER(0xE000ED08u)
#define SCB_AIRCR CORE_REGISTER(0xE000ED0Cu)
#define SCB_AIRCR_SYSRESETREQ 0x05FA0004u
#if __ARM_ARCH >= 7 /* Armv6-M has no fault status */
#define SCB_CFSR CORE_REGISTER(0xE000ED28u)
#endif
#define SCB_CPACR CORE_REGISTER(0xE000ED88u)
#define SCB_CPACR_CP10_CP11_FULL (0xFu << 20)
#define FPSCR_EXCEPTIONS 0x9Fu

__attribute__((noreturn)) static inline void core_restart(void)
{
    __asm__ volatile("dsb" ::: "memory");
    SCB_AIRCR = SCB_AIRCR_SYSRESETREQ;
    for (;;) {
    }
}

/* Sleeps until something is pending. Nearly every float operation is inexact, and such a flag holds the FPU's own
 * interrupt pending: Nordic's rule ("nRF52840 erratum 87"; nRF5 SDK, "FPU") is to clear both before a sleep. */
static inline void core_wait_for_interrupt(void)
{
#ifdef __ARM_FP
    uint32_t status;
    __asm__ volatile("vmrs %0, fpscr\n\tbics %0, %1\n\tvmsr fpscr, %0\n\tvmrs %0, fpscr"
                     : "=&r"(status)
                     : "r"(FPSCR_EXCEPTIONS)
                     : "cc");
#ifdef CORE_FPU_IRQ /* of the chip: firmware/platforms/baremetal/chips */
    NVIC_ICPR(CORE_FPU_IRQ / 32u) = 1u << (CORE_FPU_IRQ % 32u);
#endif
#endif
    __asm__ volatile("dsb\n\twfi" ::: "memory");
}

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
        core_wait_for_interrupt();
    }
    NVIC_ICER0 = bit;
    __asm__ volatile("cpsie i" ::: "memory");
}

/* Sleeps until an interrupt has been taken, unless *busy is 0 already. Interrupt `alarm` ends the sleep too, and is
 * never taken: a peripheral that has lost its clock must not keep the CPU asleep for ever. */
static inline void core_sleep_while(const volatile uint8_t *busy, uint32_t alarm)
{
    const uint32_t bit = 1u << alarm;

    __asm__ volatile("cpsid i" ::: "memory");
    if (*busy != 0u) {
        NVIC_ICPR0 = bit;
        NVIC_ISER0 = bit;
        core_wait_for_interrupt();
        NVIC_ICER0 = bit;
    }
    __asm__ volatile("cpsie i\n\tisb" ::: "memory");
}

#endif
