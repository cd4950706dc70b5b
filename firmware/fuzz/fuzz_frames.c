/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: bytes on the serial line, from noise to valid frames of every verb.
 *
 * Each line of the input goes down the line as it is; a line that begins with '>' gets its CRC first, so that the
 * verbs after the check are reached. */
#include <stddef.h>
#include <string.h>

#include "board.h"
#include "model.h"
#include "poet/frame.h"
#include "poet/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Repeats are work that was asked for, not a fault: leave one digit of them. */
static size_t limit_repeats(char *line, size_t length)
{
    static const struct {
        const char *verb;
        int spaces;
    } repeating[] = {{"bench ", 3}, {"page in ", 4}, {"page out ", 4}};
    for (size_t i = 0; i < sizeof repeating / sizeof *repeating; i++) {
        const size_t verb = strlen(repeating[i].verb);
        if (length < 6 + verb || memcmp(line + 6, repeating[i].verb, verb) != 0) {
            continue;
        }
        int spaces = 0;
        for (size_t at = 0; at < length; at++) {
            spaces += line[at] == ' ';
            if (spaces == repeating[i].spaces) {
                size_t end = at + 2;
                while (end < length && line[end] >= '0' && line[end] <= '9') {
                    end++;
                }
                if (end <= at + 2) {
                    return length;
                }
                memmove(line + at + 2, line + end, length - end);
                return length - (end - at - 2);
            }
        }
    }
    return length;
}

static void send(poet_server *server, const char *bytes, size_t length)
{
    static poet_line alone; /* the sanitizer sees its end, which in a server lies between other fields */
    for (size_t i = 0; i < length; i++) {
        (void)poet_line_push(&alone, bytes[i]);
        poet_server_receive(server, bytes[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static poet_server server;
    fuzz_reset();
    fuzz_now = fuzz_whole;
    fuzz_build();
    poet_server_init(&server, &fuzz_built);

    char line[1024];
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        const size_t length = end != NULL ? (size_t)(end - data) : size;
        size_t used = length < sizeof line ? length : sizeof line;
        memcpy(line, data, used);
        if (used > 0 && line[0] == '>') {
            used = limit_repeats(line, used);
            send(&server, line, used);
            char trailer[8];
            poet_text text = {trailer, sizeof trailer, 0};
            poet_text_char(&text, '*');
            poet_text_hex(&text, poet_crc16(line, (uint32_t)used), 4);
            send(&server, trailer, text.length);
        } else {
            send(&server, line, used);
        }
        send(&server, "\n", 1);
        data += length + (end != NULL);
        size -= length + (end != NULL);
    }
    return 0;
}
