/* SPDX-License-Identifier: Apache-2.0 */
/* What verbs are made of: reading the arguments of a request, and writing ` key=value` pairs or words after an error.
 */
#ifndef POET_PROTOCOL_REPLY_H
#define POET_PROTOCOL_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/runner.h"
#include "poet/text.h"

/* ` key=`, after which the caller writes the rest. */
void poet_reply_key(poet_text *answer, const char *key);
void poet_reply_number(poet_text *answer, const char *key, uint64_t number);
void poet_reply_hex(poet_text *answer, const char *key, uint64_t number, uint32_t digits);
void poet_reply_string(poet_text *answer, const char *key, const char *string);
void poet_reply_signed(poet_text *answer, const char *key, int32_t number);

/* What the board's own sensors show; nothing where it has none. */
void poet_reply_sensors(poet_text *answer);

/* What a run took. */
void poet_reply_run(poet_text *answer, const poet_run *run);

/* Words for a poet_status. */
const char *poet_explain(int status);

/* Ends a verb: replaces whatever was written by what went wrong. Returns `status`. */
int poet_reply_fail(poet_text *answer, int status, const char *words);

/* The same in the words of `poet_explain`; does nothing for POET_OK. */
int poet_reply_finish(poet_text *answer, int status);

/* A space and a number; false for anything else. The cursor then stands somewhere before the fault. */
bool poet_argument_unsigned(const char **cursor, uint32_t *number);
bool poet_argument_signed(const char **cursor, int32_t *number);

/* A space and the bits of a number, eight hex digits. */
bool poet_argument_f32(const char **cursor, float *number);

/* A space and the bytes that pairs of lower-case hex digits are, to the end of the line, at most `most`. */
bool poet_argument_bytes(const char *cursor, uint32_t most, uint8_t *data, uint32_t *count);

bool poet_arguments_end(const char *cursor);

#endif
