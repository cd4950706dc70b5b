/* SPDX-License-Identifier: Apache-2.0 */
/* A UART to which the CPU gives each byte, and which it asks for each: a register of data and one of flags. The
 * nRF52840 has a register for each flag instead, an event, which a store clears. peripherals/uart.py has the other
 * registers. */
#ifndef EMULATION_BYTE_UART_H
#define EMULATION_BYTE_UART_H

#include "machine.h"

#define LINE_SENT 1024u
/* So often in so many cycles the firmware asks for a byte, and none comes: it does nothing else, and nothing can happen
 * until the host sends. */
#define STARVED_POLLS 16u
#define STARVED_CYCLES 4096u

/* Bytes under way. */
struct serial_line {
    const uint8_t *bytes; /* to the board */
    uint32_t taken, count;
    uint32_t sent_count;
    uint8_t sent[LINE_SENT]; /* to the host, where Python has not taken them yet */
};

struct byte_uart {
    struct machine *machine;
    struct serial_line *line;
    uint64_t byte_cycles, next_arrival;
    uint64_t free_at, sent_at; /* of the byte sent last: out of the buffer, and sent */
    /* Places of the registers; `sent_event` is 0 where there are no events. */
    uint32_t data, send_data, data_width, status, status_width, sent_event;
    uint32_t takes, received_one, idle; /* flags of the status; 0 where there is no such flag */
    uint32_t empty_polls;               /* since a byte last moved */
    uint64_t first_poll;
    uint8_t sends; /* the event of the byte sent last has not been asked for */
    uint8_t has_sent, has_received, received;
};

load_function byte_uart_load;
store_function byte_uart_store;

#endif
