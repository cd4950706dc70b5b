/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule, as calls with every place resolved: what generated poet_schedule.h fills in. Byte for byte in
 * docs/SPEC.md. */
#ifndef POET_SCHEDULE_H
#define POET_SCHEDULE_H

#include <stdint.h>

#include "poet/operator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of these tables; generated files compare it. */
#define POET_PLAN_FORMAT 3

typedef struct poet_call {
    uint8_t op; /* in the schedule's operators, or a transfer of a page */
    uint8_t inputs;
    uint8_t outputs;
    uint8_t flags;   /* POET_WORKSPACE, POET_WAITS, POET_CHANGES */
    uint16_t params; /* index of its first parameter */
    uint16_t words;  /* index of its first word: inputs, outputs, workspace */
} poet_call;

enum { POET_PAGE_IN = 0xfe, POET_PAGE_OUT = 0xff };

/* The words of a page: no inputs and no outputs. */
enum { POET_PAGE_PLACE, POET_PAGE_BYTES, POET_PAGE_BLOCK, POET_PAGE_NUMBER, POET_PAGE_WORDS };

enum {
    POET_WORKSPACE = 1, /* one more word */
    POET_WAITS = 2,     /* before it, for the transfer under way */
    POET_CHANGES = 4    /* a resident parameter or state */
};

/* A word is a place in RAM, in bytes from its begin, residents first; with one of these bits, from the begin of the
 * constants, or the number of a kept tensor, shifted. */
enum { POET_WORD_CONSTANT = 1, POET_WORD_KEPT = 2, POET_WORD_KEPT_SHIFT = 2 };

typedef struct poet_schedule {
    uint64_t graph_hash; /* must equal the model's */
    uint64_t hash;       /* its own: the host knows by it which schedule this is */
    const poet_operator *operators;
    const poet_call *calls;
    const uint32_t *words;
    const int32_t *params;
    uint32_t crc;         /* CRC-32 of calls, words and parameters, one after the other */
    uint32_t ram_bytes;   /* residents and arena */
    uint32_t page_blocks; /* that its pages take of the card */
    uint32_t call_count;
    uint16_t word_count;
    uint16_t param_count;
    uint16_t page_count;
    uint8_t operator_count;
} poet_schedule;

#ifdef __cplusplus
}
#endif

#endif
