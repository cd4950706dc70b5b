/* SPDX-License-Identifier: Apache-2.0 */
#include "byte_uart.h"

static uint64_t now(const struct byte_uart *uart)
{
    return uart->machine->counter->cycles;
}

static void receive(struct byte_uart *uart)
{
    struct serial_line *line = uart->line;

    advance_to(uart->machine->counter, uart->next_arrival);
    uart->next_arrival = now(uart) + uart->byte_cycles;
    uart->received = line->bytes[line->taken++];
    uart->has_received = 1;
    uart->empty_polls = 0;
}

/* Nothing comes, and nothing is sent. False where it is so all the time: Python stops, and begins to count anew. */
static bool poll_in_vain(struct byte_uart *uart)
{
    if (uart->empty_polls == 0 || now(uart) - uart->first_poll > STARVED_CYCLES) {
        uart->empty_polls = 0;
        uart->first_poll = now(uart);
    }
    uart->empty_polls++;
    return uart->empty_polls < STARVED_POLLS;
}

/* The CPU asks over and over: the clock skips to what comes next. */
static bool wait(struct byte_uart *uart)
{
    if (!uart->has_received && uart->line->taken < uart->line->count) {
        receive(uart);
    }
    if (uart->sent_event == 0 && now(uart) < uart->sent_at) {
        advance_to(uart->machine->counter, now(uart) < uart->free_at ? uart->free_at : uart->sent_at);
        return true;
    }
    return uart->has_received || poll_in_vain(uart);
}

static bool send(struct byte_uart *uart, uint8_t value)
{
    struct serial_line *line = uart->line;

    if (!uart->machine->serial_checked || now(uart) < uart->free_at || line->sent_count == LINE_SENT) {
        return false;
    }
    const uint64_t begin = now(uart) > uart->sent_at ? now(uart) : uart->sent_at;
    uart->sent_at = begin + uart->byte_cycles;
    uart->free_at = uart->sent_event != 0 ? uart->sent_at : begin;
    uart->sends = 1;
    uart->has_sent = uart->sent_event == 0 || uart->has_sent;
    line->sent[line->sent_count++] = value;
    uart->empty_polls = 0;
    return true;
}

static uint32_t take_sent_event(struct byte_uart *uart)
{
    if (uart->sends) {
        advance_to(uart->machine->counter, uart->sent_at);
        uart->sends = 0;
        uart->has_sent = 1;
    }
    return uart->has_sent;
}

bool byte_uart_load(void *peripheral, uint32_t offset, uint32_t width, uint32_t *value)
{
    struct byte_uart *uart = peripheral;
    const bool has_events = uart->sent_event != 0;

    if (offset == uart->status && width == uart->status_width && uart->machine->serial_checked && wait(uart)) {
        *value = uart->takes | (uart->has_received ? uart->received_one : 0) |
                 (uart->has_sent && now(uart) >= uart->sent_at ? uart->idle : 0);
        return true;
    }
    if (offset == uart->data && width == uart->data_width && (has_events || uart->has_received)) {
        *value = uart->received;
        uart->has_received = has_events && uart->has_received;
        return true;
    }
    if (has_events && offset == uart->sent_event && width == 4) {
        *value = take_sent_event(uart);
        return true;
    }
    return false;
}

bool byte_uart_store(void *peripheral, uint32_t offset, uint32_t width, uint32_t value)
{
    struct byte_uart *uart = peripheral;

    if (uart->sent_event != 0 && width == 4 && (offset == uart->status || offset == uart->sent_event)) {
        *(offset == uart->status ? &uart->has_received : &uart->has_sent) = value != 0;
        return true;
    }
    return offset == uart->send_data && width == uart->data_width && send(uart, (uint8_t)value);
}
