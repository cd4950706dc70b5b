/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/text.h"

void poet_text_char(poet_text *text, char character)
{
    if (text->length + 1u < text->capacity) {
        text->buffer[text->length++] = character;
    }
    text->buffer[text->length] = '\0';
}

void poet_text_string(poet_text *text, const char *string)
{
    while (*string != '\0') {
        poet_text_char(text, *string++);
    }
}

/* Divides by ten, and returns what is left. In parts, since a core without 64-bit division takes 2 KB for one. */
static uint32_t divide_by_ten(uint64_t *number)
{
    uint64_t tenth = 0;
    uint32_t left = 0;
    for (uint32_t shift = 64; shift > 0;) {
        shift -= 16;
        left = left << 16 | (uint32_t)(*number >> shift & 0xffffu);
        tenth = tenth << 16 | left / 10u;
        left %= 10u;
    }
    *number = tenth;
    return left;
}

void poet_text_decimal(poet_text *text, uint64_t number)
{
    char digits[20];
    uint32_t count = 0;
    do {
        digits[count++] = "0123456789"[divide_by_ten(&number)];
    } while (number > 0);
    while (count > 0) {
        poet_text_char(text, digits[--count]);
    }
}

void poet_text_hex(poet_text *text, uint64_t number, uint32_t digits)
{
    while (digits > 0) {
        poet_text_char(text, "0123456789abcdef"[(number >> (4u * --digits)) & 15u]);
    }
}

bool poet_read_char(const char **cursor, char expected)
{
    if (**cursor != expected) {
        return false;
    }
    (*cursor)++;
    return true;
}

bool poet_read_word(const char **cursor, const char *word)
{
    const char *at = *cursor;
    while (*word != '\0') {
        if (*at++ != *word++) {
            return false;
        }
    }
    if (*at != ' ' && *at != '\0') {
        return false;
    }
    *cursor = at;
    return true;
}

bool poet_read_decimal(const char **cursor, int64_t *number)
{
    const char *at = *cursor;
    const bool negative = poet_read_char(&at, '-');
    if (*at < '0' || *at > '9') {
        return false;
    }
    int64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > (INT64_C(1) << 58)) {
            return false;
        }
        value = value * 10 + (*at - '0');
    }
    *number = negative ? -value : value;
    *cursor = at;
    return true;
}

bool poet_read_unsigned(const char **cursor, uint32_t *number)
{
    const char *at = *cursor;
    int64_t value;
    if (!poet_read_decimal(&at, &value) || value < 0 || value > (int64_t)UINT32_MAX) {
        return false;
    }
    *number = (uint32_t)value;
    *cursor = at;
    return true;
}

bool poet_read_hex(const char **cursor, uint32_t digits, uint32_t *number)
{
    const char *at = *cursor;
    uint32_t value = 0;
    for (; digits > 0; digits--, at++) {
        if (*at >= '0' && *at <= '9') {
            value = value << 4 | (uint32_t)(*at - '0');
        } else if (*at >= 'a' && *at <= 'f') {
            value = value << 4 | (uint32_t)(*at - 'a' + 10);
        } else {
            return false;
        }
    }
    *number = value;
    *cursor = at;
    return true;
}
