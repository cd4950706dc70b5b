/* SPDX-License-Identifier: Apache-2.0 */
/* Text into a caller's buffer and numbers out of text, without libc.
 *
 *     char buffer[32];
 *     poet_text text = {buffer, sizeof buffer, 0};
 *     poet_text_string(&text, " ticks=");
 *     poet_text_decimal(&text, 864305);        // buffer: " ticks=864305", text.length: 13
 *
 * What does not fit is dropped; the buffer always ends in a zero byte.
 */
#ifndef POET_TEXT_H
#define POET_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_text {
    char *buffer;
    uint32_t capacity; /* at least 1 */
    uint32_t length;
} poet_text;

void poet_text_char(poet_text *text, char character);
void poet_text_string(poet_text *text, const char *string);
void poet_text_decimal(poet_text *text, uint64_t number);
void poet_text_hex(poet_text *text, uint64_t number, uint32_t digits);

/* Each reads one thing at *cursor and moves the cursor past it. It returns false and leaves the cursor where it is if
 * that thing is not there. */
bool poet_read_char(const char **cursor, char expected);
bool poet_read_word(const char **cursor, const char *word);                 /* and then a space or the end */
bool poet_read_decimal(const char **cursor, int64_t *number);               /* within +-2^62 */
bool poet_read_unsigned(const char **cursor, uint32_t *number);             /* within 32 bits */
bool poet_read_hex(const char **cursor, uint32_t digits, uint32_t *number); /* exactly so many, lower case */

#ifdef __cplusplus
}
#endif

#endif
