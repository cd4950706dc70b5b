/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: the checked lines of the serial protocol (docs/SPEC.md, section 6).
 *
 *     poet_line line = {0};
 *     poet_request request;
 *     while (!poet_line_push(&line, next_byte()))
 *         ;
 *     if (poet_frame_open(line.text, line.length, &request) == POET_OK)
 *         ... request.sequence, request.body ("bench 7 10 4096")
 */
#ifndef POET_FRAME_H
#define POET_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/status.h"
#include "poet/text.h"

#ifdef __cplusplus
extern "C" {
#endif

#define POET_LINE_BYTES 512u /* the longest line, without its end */

typedef struct poet_line {
    char text[POET_LINE_BYTES + 1u];
    uint32_t length;
    bool complete; /* the line was handed out: the next byte begins a new one */
    bool overflow; /* too long: dropped up to its end */
} poet_line;

typedef struct poet_request {
    uint16_t sequence;
    const char *body; /* verb and arguments, zero-terminated */
} poet_request;

/* CRC-16/CCITT-FALSE. */
uint16_t poet_crc16(const char *data, uint32_t bytes);

/* True when `byte`, \n or \r, has ended a line that is neither empty nor too long: `text` holds it, without its end. */
bool poet_line_push(poet_line *line, char byte);

/* Checks a line and cuts its CRC off. POET_E_CORRUPT for anything but a whole request. */
int poet_frame_open(char *line, uint32_t length, poet_request *request);

/* Begins a frame to the host, `<SSSS `, in an empty text; poet_frame_close adds its CRC and the line feed. */
void poet_frame_begin(poet_text *text, uint16_t sequence);
void poet_frame_close(poet_text *text);

#ifdef __cplusplus
}
#endif

#endif
