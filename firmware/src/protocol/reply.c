/* SPDX-License-Identifier: Apache-2.0 */
#include "reply.h"

#include <stddef.h>
#include <string.h>

#include "poet/board.h"
#include "poet/status.h"

/* --- answers --- */

void poet_reply_key(poet_text *answer, const char *key)
{
    poet_text_char(answer, ' ');
    poet_text_string(answer, key);
    poet_text_char(answer, '=');
}

void poet_reply_number(poet_text *answer, const char *key, uint64_t number)
{
    poet_reply_key(answer, key);
    poet_text_decimal(answer, number);
}

void poet_reply_hex(poet_text *answer, const char *key, uint64_t number, uint32_t digits)
{
    poet_reply_key(answer, key);
    poet_text_hex(answer, number, digits);
}

void poet_reply_string(poet_text *answer, const char *key, const char *string)
{
    poet_reply_key(answer, key);
    poet_text_string(answer, string);
}

void poet_reply_signed(poet_text *answer, const char *key, int32_t number)
{
    poet_reply_key(answer, key);
    if (number < 0) {
        poet_text_char(answer, '-');
    }
    poet_text_decimal(answer, number < 0 ? 0u - (uint32_t)number : (uint32_t)number);
}

void poet_reply_sensors(poet_text *answer)
{
    poet_sensors sensors = {0};
    poet_board_sensors(&sensors);
    if (sensors.has_clock) {
        poet_reply_number(answer, "cpu_khz", sensors.cpu_khz);
    }
    if (sensors.has_temperature) {
        poet_reply_signed(answer, "temperature_mc", sensors.temperature_mc);
    }
}

const char *poet_explain(int status)
{
    switch (status) {
    case POET_E_ARGUMENT:
        return "arguments make no sense";
    case POET_E_MEMORY:
        return "does not fit the RAM, or overlaps a live block";
    case POET_E_ORDER:
        return "schedule needs a value that is not there";
    case POET_E_IO:
        return "storage device does not answer or reports an error";
    case POET_E_FULL:
        return "storage device has no room";
    case POET_E_CORRUPT:
        return "check failed";
    case POET_E_UNSUPPORTED:
        return "not in this build";
    case POET_E_PROTECTED:
        return "card is write-protected or locked: unlock it in a computer, or use another one";
    case POET_E_TAKEN:
        return "prepared by another version of poet, or the card holds the tensors of another model";
    case POET_E_NOT_FINITE:
        return "a weight is infinite or no number";
    default:
        return "no card, or no label on it";
    }
}

int poet_reply_fail(poet_text *answer, int status, const char *words)
{
    answer->length = 0;
    poet_text_string(answer, words);
    return status;
}

int poet_reply_finish(poet_text *answer, int status)
{
    return status == POET_OK ? status : poet_reply_fail(answer, status, poet_explain(status));
}

/* --- arguments --- */

bool poet_argument_unsigned(const char **cursor, uint32_t *number)
{
    return poet_read_char(cursor, ' ') && poet_read_unsigned(cursor, number);
}

bool poet_argument_signed(const char **cursor, int32_t *number)
{
    int64_t wide;
    if (!poet_read_char(cursor, ' ') || !poet_read_decimal(cursor, &wide) || wide < INT32_MIN || wide > INT32_MAX) {
        return false;
    }
    *number = (int32_t)wide;
    return true;
}

bool poet_argument_f32(const char **cursor, float *number)
{
    uint32_t bits;
    if (!poet_read_char(cursor, ' ') || !poet_read_hex(cursor, 8, &bits)) {
        return false;
    }
    memcpy(number, &bits, sizeof bits);
    return true;
}

bool poet_argument_bytes(const char *cursor, uint32_t most, uint8_t *data, uint32_t *count)
{
    if (!poet_read_char(&cursor, ' ')) {
        return false;
    }
    for (*count = 0; *cursor != '\0'; (*count)++) {
        uint32_t value;
        if (*count == most || !poet_read_hex(&cursor, 2, &value)) {
            return false;
        }
        data[*count] = (uint8_t)value;
    }
    return true;
}

bool poet_arguments_end(const char *cursor)
{
    return *cursor == '\0';
}

void poet_reply_run(poet_text *answer, const poet_run *run)
{
    poet_reply_number(answer, "ticks", run->ticks);
    poet_reply_number(answer, "page_ins", run->page_ins);
    poet_reply_number(answer, "page_outs", run->page_outs);
}
