/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/frame.h"

uint16_t poet_crc16(const char *data, uint32_t bytes)
{
    uint32_t crc = 0xffffu;
    for (uint32_t i = 0; i < bytes; i++) {
        /* Polynomial 0x1021 a byte at a time: x folds the byte's own carry (x^12, x^5, 1) into the remainder. */
        uint32_t x = (crc >> 8 ^ (uint8_t)data[i]) & 0xffu;
        x ^= x >> 4;
        crc = (crc << 8 ^ x << 12 ^ x << 5 ^ x) & 0xffffu;
    }
    return (uint16_t)crc;
}

bool poet_line_push(poet_line *line, char byte)
{
    if (line->complete) {
        line->complete = false;
        line->length = 0;
    }
    if (byte == '\n' || byte == '\r') { /* Enter is \r to most terminals; of \r\n, the second ends an empty line */
        line->complete = !line->overflow && line->length > 0;
        if (line->overflow) {
            line->length = 0;
        }
        line->overflow = false;
        line->text[line->length] = '\0';
        return line->complete;
    }
    if (line->length == POET_LINE_BYTES) {
        line->overflow = true;
    } else {
        line->text[line->length++] = byte;
    }
    return false;
}

int poet_frame_open(char *line, uint32_t length, poet_request *request)
{
    enum { TRAILER = 5 }; /* "*CCCC" */
    if (length < TRAILER + 1u) {
        return POET_E_CORRUPT;
    }
    const uint32_t body_length = length - TRAILER;
    const char *cursor = line + body_length;
    uint32_t crc;
    uint32_t sequence;
    if (!poet_read_char(&cursor, '*') || !poet_read_hex(&cursor, 4, &crc) || crc != poet_crc16(line, body_length)) {
        return POET_E_CORRUPT;
    }
    for (uint32_t i = 0; i < body_length; i++) {
        if (line[i] < ' ' || line[i] > '~') {
            return POET_E_CORRUPT;
        }
    }
    line[body_length] = '\0';
    cursor = line;
    if (!poet_read_char(&cursor, '>') || !poet_read_hex(&cursor, 4, &sequence) || !poet_read_char(&cursor, ' ')) {
        return POET_E_CORRUPT;
    }
    request->sequence = (uint16_t)sequence;
    request->body = cursor;
    return POET_OK;
}

void poet_frame_begin(poet_text *text, uint16_t sequence)
{
    poet_text_char(text, '<');
    poet_text_hex(text, sequence, 4);
    poet_text_char(text, ' ');
}

void poet_frame_close(poet_text *text)
{
    const uint16_t crc = poet_crc16(text->buffer, text->length);
    poet_text_char(text, '*');
    poet_text_hex(text, crc, 4);
    poet_text_char(text, '\n');
}
