/* SPDX-License-Identifier: Apache-2.0 */
/* PLL, bus clocks, flash and core voltage for 100 MHz (RM0383, 3.4.1, 5.1.4 and 6.2). */
#include "clocks.h"

#include "board_settings.h"
#include "registers.h"
#include "wait.h"

#if BOARD_CLOCK_HZ != 100000000
#error "clock_hz of the board's file: this driver runs an STM32F411 at 100 MHz"
#endif
#if BOARD_CRYSTAL_HZ == 0 || BOARD_CRYSTAL_HZ % 1000000 != 0 || BOARD_CRYSTAL_HZ < 4000000 || \
    BOARD_CRYSTAL_HZ > 26000000
#error "crystal_hz of the board's file: an STM32F411 needs a clock of 4 to 26 MHz, and this driver whole megahertz"
#endif

#define MHZ 1000000u
#define PLL_INPUT_DIVIDER (BOARD_CRYSTAL_HZ / MHZ) /* PLLM, from bit 0 */
#define PLL_FACTOR (2u * CORE_HZ / MHZ)            /* PLLN, from bit 6; PLLP of 0 divides by two */
#define USB_DIVIDER 5u                             /* PLLQ, from bit 24: 40 MHz, which nothing here uses */
#define WAIT_STATES 3u                             /* 90 to 100 MHz at 2.7 to 3.6 V */
#define VOLTAGE_SCALE_1 3u
#define DIVIDE_BY_2 4u

void clocks_init(void)
{
    RCC_APB1ENR |= RCC_APB1ENR_PWREN;
    PWR_CR = PWR_CR_VOS(VOLTAGE_SCALE_1);
    RCC_CR |= BOARD_CRYSTAL_IS_CLOCK != 0 ? RCC_CR_HSEBYP | RCC_CR_HSEON : RCC_CR_HSEON;
    WAIT_UNTIL((RCC_CR & RCC_CR_HSERDY) != 0u, WAIT_CRYSTAL);
    RCC_PLLCFGR = PLL_INPUT_DIVIDER | PLL_FACTOR << 6 | RCC_PLLCFGR_PLLSRC | USB_DIVIDER << 24;
    RCC_CR |= RCC_CR_PLLON;
    WAIT_UNTIL((RCC_CR & RCC_CR_PLLRDY) != 0u, WAIT_CLOCK);
    FLASH_ACR = FLASH_ACR_LATENCY(WAIT_STATES) | FLASH_ACR_PRFTEN | FLASH_ACR_ICEN | FLASH_ACR_DCEN;
    RCC_CFGR = RCC_CFGR_PPRE1(DIVIDE_BY_2) | RCC_CFGR_PPRE2(DIVIDE_BY_2);
    RCC_CFGR |= RCC_CFGR_SW1;
    WAIT_UNTIL((RCC_CFGR & RCC_CFGR_SWS1) != 0u, WAIT_CLOCK);
}
