/* SPDX-License-Identifier: Apache-2.0 */
/* The STM32F411 registers that the drivers use, named as in ST's SVD file (PERIPHERAL_REGISTER), which
 * tests/emulation/test_registers.py holds them against. Section numbers are those of the reference manual RM0383.
 */
#ifndef STM32F411_REGISTERS_H
#define STM32F411_REGISTERS_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))

/* 3.8 Flash interface: wait states, prefetch, caches. */
#define FLASH_ACR REGISTER(0x40023C00u)
#define FLASH_ACR_LATENCY(value) ((uint32_t)(value) << 0)
#define FLASH_ACR_PRFTEN (1u << 8)
#define FLASH_ACR_ICEN (1u << 9)
#define FLASH_ACR_DCEN (1u << 10)

/* 5.4 PWR: the core's voltage, which limits its clock. */
#define PWR_CR REGISTER(0x40007000u)
#define PWR_CR_VOS(value) ((uint32_t)(value) << 14)

/* 6.3 RCC: oscillators, PLL, bus clocks, why the chip was reset. */
#define RCC_CR REGISTER(0x40023800u)
#define RCC_CR_HSEON (1u << 16)
#define RCC_CR_HSERDY (1u << 17)
#define RCC_CR_HSEBYP (1u << 18)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
/* One register for the PLL; ST's file lists its factors bit by bit. */
#define RCC_PLLCFGR REGISTER(0x40023804u)
#define RCC_PLLCFGR_PLLSRC (1u << 22)
#define RCC_CFGR REGISTER(0x40023808u)
#define RCC_CFGR_PPRE1(value) ((uint32_t)(value) << 10)
#define RCC_CFGR_PPRE2(value) ((uint32_t)(value) << 13)
#define RCC_CFGR_SW1 (1u << 1)
#define RCC_CFGR_SWS1 (1u << 3)
#define RCC_AHB1ENR REGISTER(0x40023830u)
#define RCC_AHB1ENR_GPIOAEN (1u << 0)
#define RCC_AHB1ENR_GPIOBEN (1u << 1)
#define RCC_AHB1ENR_GPIOCEN (1u << 2)
#define RCC_APB1ENR REGISTER(0x40023840u)
#define RCC_APB1ENR_TIM2EN (1u << 0)
#define RCC_APB1ENR_USART2EN (1u << 17)
#define RCC_APB1ENR_PWREN (1u << 28)
#define RCC_APB2ENR REGISTER(0x40023844u)
#define RCC_APB2ENR_SPI1EN (1u << 12)
#define RCC_CSR REGISTER(0x40023874u)
#define RCC_CSR_RMVF (1u << 24)
#define RCC_CSR_BORRSTF (1u << 25)
#define RCC_CSR_PORRSTF (1u << 27)
#define RCC_CSR_SFTRSTF (1u << 28)
#define RCC_CSR_WDGRSTF (1u << 29)
#define RCC_CSR_WWDGRSTF (1u << 30)

/* 8.4 GPIO: port A; the others lie 0x400 apart (gpio.h). */
#define GPIOA_MODER REGISTER(0x40020000u)
#define GPIOA_PUPDR REGISTER(0x4002000Cu)
#define GPIOA_BSRR REGISTER(0x40020018u)
#define GPIOA_AFRL REGISTER(0x40020020u)
#define GPIOA_AFRH REGISTER(0x40020024u)

/* 13.4 TIM2: a counter of 32 bits. */
#define TIM2_CR1 REGISTER(0x40000000u)
#define TIM2_CR1_CEN (1u << 0)
#define TIM2_DIER REGISTER(0x4000000Cu)
#define TIM2_DIER_CC1IE (1u << 1)
#define TIM2_SR REGISTER(0x40000010u)
#define TIM2_SR_CC1IF (1u << 1)
#define TIM2_EGR REGISTER(0x40000014u)
#define TIM2_EGR_UG (1u << 0)
#define TIM2_CNT REGISTER(0x40000024u)
#define TIM2_PSC REGISTER(0x40000028u)
#define TIM2_ARR REGISTER(0x4000002Cu)
#define TIM2_CCR1 REGISTER(0x40000034u)
#define TIM2_IRQ 28u

/* 19.6 USART. */
#define USART2_SR REGISTER(0x40004400u)
#define USART2_SR_RXNE (1u << 5)
#define USART2_SR_TC (1u << 6)
#define USART2_SR_TXE (1u << 7)
#define USART2_DR REGISTER(0x40004404u)
#define USART2_BRR REGISTER(0x40004408u)
#define USART2_CR1 REGISTER(0x4000440Cu)
#define USART2_CR1_RE (1u << 2)
#define USART2_CR1_TE (1u << 3)
#define USART2_CR1_UE (1u << 13)

/* 20.5 SPI. */
#define SPI1_CR1 REGISTER(0x40013000u)
#define SPI1_CR1_MSTR (1u << 2)
#define SPI1_CR1_BR(value) ((uint32_t)(value) << 3)
#define SPI1_CR1_SPE (1u << 6)
#define SPI1_CR1_SSI (1u << 8)
#define SPI1_CR1_SSM (1u << 9)
#define SPI1_SR REGISTER(0x40013008u)
#define SPI1_SR_RXNE (1u << 0)
#define SPI1_SR_TXE (1u << 1)
#define SPI1_SR_BSY (1u << 7)
#define SPI1_DR REGISTER(0x4001300Cu)

#endif
