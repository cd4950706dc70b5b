/* SPDX-License-Identifier: Apache-2.0 */
/* Which pin does what on the MKR1000; the SD card sits as on Arduino's MKR SD Proto Shield (docs/boards.md). */
#ifndef MKR1000_PINS_H
#define MKR1000_PINS_H

#define PIN_SERIAL_TX 22u   /* PB22, D14, SERCOM5 pad 2 */
#define PIN_SERIAL_RX 23u   /* PB23, D13, SERCOM5 pad 3 */
#define PIN_WINDOW 21u      /* PA21, D7 */
#define PIN_CARD_CS 10u     /* PB10, D4 */
#define PIN_CARD_MOSI 16u   /* PA16, D8, SERCOM1 pad 0 */
#define PIN_CARD_SCK 17u    /* PA17, D9, SERCOM1 pad 1 */
#define PIN_CARD_MISO 19u   /* PA19, D10, SERCOM1 pad 3 */
#define PIN_WIFI_RESET 27u  /* PA27, low: the ATWINC1500 beside the SAMD21 stays in reset */
#define PIN_WIFI_ENABLE 28u /* PA28, low: and powered down */

#endif
