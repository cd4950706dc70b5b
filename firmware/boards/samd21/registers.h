/* SPDX-License-Identifier: Apache-2.0 */
/* The SAMD21 registers that the drivers use, named as in Atmel's SVD file (PERIPHERAL_REGISTER), which
 * tests/emulation/test_registers.py holds them against. Chapters are those of the SAM D21/DA1 family data sheet
 * DS40001882.
 */
#ifndef SAMD21_REGISTERS_H
#define SAMD21_REGISTERS_H

#include <stdint.h>

#define REGISTER8(address) (*(volatile uint8_t *)(address))
#define REGISTER16(address) (*(volatile uint16_t *)(address))
#define REGISTER32(address) (*(volatile uint32_t *)(address))

/* 16 PM, power manager: reset cause and clock gates. */
#define PM_RCAUSE REGISTER8(0x40000438u)
#define PM_RCAUSE_POR (1u << 0)
#define PM_RCAUSE_EXT (1u << 4)
#define PM_RCAUSE_WDT (1u << 5)
#define PM_RCAUSE_SYST (1u << 6)
#define PM_APBCMASK REGISTER32(0x40000420u)
#define PM_APBCMASK_SERCOM1 (1u << 3)
#define PM_APBCMASK_SERCOM5 (1u << 7)
#define PM_APBCMASK_TC4 (1u << 12)
#define PM_APBCMASK_TC5 (1u << 13)

/* 17 SYSCTRL: oscillators. */
#define SYSCTRL_PCLKSR REGISTER32(0x4000080Cu)
#define SYSCTRL_PCLKSR_XOSC32KRDY (1u << 1)
#define SYSCTRL_PCLKSR_DFLLRDY (1u << 4)
#define SYSCTRL_PCLKSR_DFLLLCKF (1u << 6)
#define SYSCTRL_PCLKSR_DFLLLCKC (1u << 7)
#define SYSCTRL_XOSC32K REGISTER16(0x40000814u)
#define SYSCTRL_XOSC32K_ENABLE (1u << 1)
#define SYSCTRL_XOSC32K_XTALEN (1u << 2)
#define SYSCTRL_XOSC32K_EN32K (1u << 3)
#define SYSCTRL_XOSC32K_STARTUP(value) ((uint32_t)(value) << 8)
#define SYSCTRL_OSC8M REGISTER32(0x40000820u)
#define SYSCTRL_OSC8M_PRESC(value) ((uint32_t)(value) << 8)
#define OSC8M_DIV8 3u
#define SYSCTRL_DFLLCTRL REGISTER16(0x40000824u)
#define SYSCTRL_DFLLCTRL_ENABLE (1u << 1)
#define SYSCTRL_DFLLCTRL_MODE (1u << 2)
#define SYSCTRL_DFLLCTRL_QLDIS (1u << 9)
#define SYSCTRL_DFLLMUL REGISTER32(0x4000082Cu)
#define SYSCTRL_DFLLMUL_MUL(value) ((uint32_t)(value) << 0)
#define SYSCTRL_DFLLMUL_FSTEP(value) ((uint32_t)(value) << 16)
#define SYSCTRL_DFLLMUL_CSTEP(value) ((uint32_t)(value) << 26)

/* 15 GCLK: generic clocks. */
#define GCLK_CTRL REGISTER8(0x40000C00u)
#define GCLK_CTRL_SWRST (1u << 0)
#define GCLK_STATUS REGISTER8(0x40000C01u)
#define GCLK_STATUS_SYNCBUSY (1u << 7)
#define GCLK_CLKCTRL REGISTER16(0x40000C02u)
#define GCLK_CLKCTRL_ID(value) ((uint32_t)(value) << 0)
#define GCLK_CLKCTRL_GEN(value) ((uint32_t)(value) << 8)
#define GCLK_CLKCTRL_CLKEN (1u << 14)
#define GCLK_GENCTRL REGISTER32(0x40000C04u)
#define GCLK_GENCTRL_ID(value) ((uint32_t)(value) << 0)
#define GCLK_GENCTRL_SRC(value) ((uint32_t)(value) << 8)
#define GCLK_GENCTRL_GENEN (1u << 16)
#define GCLK_GENCTRL_IDC (1u << 17)
#define GCLK_SOURCE_XOSC32K 5u
#define GCLK_SOURCE_DFLL48M 7u
#define GCLK_ID_DFLL48 0u
#define GCLK_ID_SERCOM1_CORE 21u
#define GCLK_ID_SERCOM5_CORE 25u
#define GCLK_ID_TC4_TC5 28u

/* 22 NVMCTRL: flash wait states, erasing and programming. */
#define NVMCTRL_CTRLA REGISTER16(0x41004000u)
#define NVMCTRL_CTRLA_CMD_ER 0x02u
#define NVMCTRL_CTRLA_CMD_WP 0x04u
#define NVMCTRL_CTRLA_CMD_PBC 0x44u
#define NVMCTRL_CTRLA_CMD_INVALL 0x46u
#define NVMCTRL_CTRLA_CMDEX(value) ((uint32_t)(value) << 8)
#define NVMCTRL_CTRLA_CMDEX_KEY 0xA5u
#define NVMCTRL_INTFLAG REGISTER8(0x41004014u)
#define NVMCTRL_INTFLAG_READY (1u << 0)
#define NVMCTRL_ADDR REGISTER32(0x4100401Cu)
#define NVMCTRL_CTRLB REGISTER32(0x41004004u)
#define NVMCTRL_CTRLB_RWS(value) ((uint32_t)(value) << 1)
#define NVMCTRL_CTRLB_MANW (1u << 7)

/* 23 PORT: group 0 is PA, group 1 is PB. */
#define PORT_DIRSET0 REGISTER32(0x41004408u)
#define PORT_DIRSET1 REGISTER32(0x41004488u)
#define PORT_OUTCLR0 REGISTER32(0x41004414u)
#define PORT_OUTCLR1 REGISTER32(0x41004494u)
#define PORT_OUTSET0 REGISTER32(0x41004418u)
#define PORT_OUTSET1 REGISTER32(0x41004498u)
#define PORT_IN0 REGISTER32(0x41004420u)
#define PORT_PMUX0_(index) REGISTER8(0x41004430u + (index))
#define PORT_PMUX1_(index) REGISTER8(0x410044B0u + (index))
#define PORT_PINCFG0_(pin) REGISTER8(0x41004440u + (pin))
#define PORT_PINCFG1_(pin) REGISTER8(0x410044C0u + (pin))
#define PORT_PINCFG0_PMUXEN (1u << 0)
#define PORT_PINCFG0_INEN (1u << 1)
#define PORT_PINCFG0_PULLEN (1u << 2)
#define PORT_FUNCTION_C 2u
#define PORT_FUNCTION_D 3u

/* 30 TC: TC4 and TC5 joined to one counter of 32 bits. */
#define TC4_COUNT32_CTRLA REGISTER16(0x42003000u)
#define TC4_COUNT32_CTRLA_SWRST (1u << 0)
#define TC4_COUNT32_CTRLA_ENABLE (1u << 1)
#define TC4_COUNT32_CTRLA_MODE(value) ((uint32_t)(value) << 2)
#define TC4_COUNT32_CTRLA_PRESCALER(value) ((uint32_t)(value) << 8)
#define TC4_COUNT32_READREQ REGISTER16(0x42003002u)
#define TC4_COUNT32_READREQ_ADDR(value) ((uint32_t)(value) << 0)
#define TC4_COUNT32_READREQ_RREQ (1u << 15)
#define TC4_COUNT32_INTENCLR REGISTER8(0x4200300Cu)
#define TC4_COUNT32_INTENSET REGISTER8(0x4200300Du)
#define TC4_COUNT32_INTFLAG REGISTER8(0x4200300Eu)
#define TC4_COUNT32_INTFLAG_MC0 (1u << 4)
#define TC4_COUNT32_STATUS REGISTER8(0x4200300Fu)
#define TC4_COUNT32_STATUS_SYNCBUSY (1u << 7)
#define TC4_COUNT32_COUNT REGISTER32(0x42003010u)
#define TC4_COUNT32_CC0 REGISTER32(0x42003018u)
#define TC4_IRQ 19u
#define TC_MODE_COUNT32 2u
#define TC_PRESCALER_DIV8 3u

/* 26 SERCOM USART. */
#define SERCOM5_USART_CTRLA REGISTER32(0x42001C00u)
#define SERCOM5_USART_CTRLA_SWRST (1u << 0)
#define SERCOM5_USART_CTRLA_ENABLE (1u << 1)
#define SERCOM5_USART_CTRLA_MODE(value) ((uint32_t)(value) << 2)
#define SERCOM5_USART_CTRLA_TXPO(value) ((uint32_t)(value) << 16)
#define SERCOM5_USART_CTRLA_RXPO(value) ((uint32_t)(value) << 20)
#define SERCOM5_USART_CTRLA_DORD (1u << 30)
#define SERCOM5_USART_CTRLB REGISTER32(0x42001C04u)
#define SERCOM5_USART_CTRLB_TXEN (1u << 16)
#define SERCOM5_USART_CTRLB_RXEN (1u << 17)
#define SERCOM5_USART_BAUD REGISTER16(0x42001C0Cu)
#define SERCOM5_USART_INTFLAG REGISTER8(0x42001C18u)
#define SERCOM5_USART_INTFLAG_DRE (1u << 0)
#define SERCOM5_USART_INTFLAG_TXC (1u << 1)
#define SERCOM5_USART_INTFLAG_RXC (1u << 2)
#define SERCOM5_USART_SYNCBUSY REGISTER32(0x42001C1Cu)
#define SERCOM5_USART_DATA REGISTER16(0x42001C28u)
#define SERCOM_MODE_USART_INTERNAL 1u

/* 27 SERCOM SPI. */
#define SERCOM1_SPI_CTRLA REGISTER32(0x42000C00u)
#define SERCOM1_SPI_CTRLA_SWRST (1u << 0)
#define SERCOM1_SPI_CTRLA_ENABLE (1u << 1)
#define SERCOM1_SPI_CTRLA_MODE(value) ((uint32_t)(value) << 2)
#define SERCOM1_SPI_CTRLA_DOPO(value) ((uint32_t)(value) << 16)
#define SERCOM1_SPI_CTRLA_DIPO(value) ((uint32_t)(value) << 20)
#define SERCOM1_SPI_CTRLB REGISTER32(0x42000C04u)
#define SERCOM1_SPI_CTRLB_RXEN (1u << 17)
#define SERCOM1_SPI_BAUD REGISTER8(0x42000C0Cu)
#define SERCOM1_SPI_INTFLAG REGISTER8(0x42000C18u)
#define SERCOM1_SPI_INTFLAG_DRE (1u << 0)
#define SERCOM1_SPI_INTFLAG_RXC (1u << 2)
#define SERCOM1_SPI_SYNCBUSY REGISTER32(0x42000C1Cu)
#define SERCOM1_SPI_DATA REGISTER32(0x42000C28u)
#define SERCOM_MODE_SPI_MASTER 3u

#endif
