/* SPDX-License-Identifier: Apache-2.0 */
/* Which pin does what: the nRF52840-DK's wiring of its J-Link serial port, and an SD breakout on the Arduino header.
 * A bare module uses the same pins. P1 pins, but for the serial line, which lies on P0 (docs/boards.md). */
#ifndef NRF52840_PINS_H
#define NRF52840_PINS_H

#define PORT1 32u /* PSEL counts P1.00 as 32 */

#define PIN_SERIAL_TX 6u  /* P0.06 */
#define PIN_SERIAL_RX 8u  /* P0.08 */
#define PIN_WINDOW 8u     /* P1.08, D7 */
#define PIN_CARD_CS 12u   /* P1.12, D10 */
#define PIN_CARD_MOSI 13u /* P1.13, D11 */
#define PIN_CARD_MISO 14u /* P1.14, D12 */
#define PIN_CARD_SCK 15u  /* P1.15, D13 */

#endif
