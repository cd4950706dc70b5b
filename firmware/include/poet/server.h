/* SPDX-License-Identifier: Apache-2.0 */
/* The device's side of the serial protocol (docs/SPEC.md, section 6): bytes in, checked answers out.
 *
 *     static poet_server server;
 *     poet_server_init(&server, &poet_built_in);
 *     for (;;)
 *         if ((byte = poet_board_getchar()) >= 0)
 *             poet_server_receive(&server, (char)byte);
 *
 * A whole valid request is acknowledged, carried out and answered before poet_server_receive returns.
 */
#ifndef POET_SERVER_H
#define POET_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/block_device.h"
#include "poet/built.h"
#include "poet/features.h"
#include "poet/frame.h"
#include "poet/pager.h"
#include "poet/record.h"
#include "poet/runner.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_server {
    const poet_built *built;
    uint8_t *ram;
    uint32_t ram_bytes;
    poet_hooks hooks; /* the board's clock and line */
    poet_runner runner;
    int runner_status;     /* POET_E_ABSENT without a model; why the schedule is refused, if it is */
    int inference_status;  /* the same of the inference beside it */
    int extraction_status; /* and of what makes features */
    poet_runner extractor;
    poet_feature_store store;
    poet_block_device card;
    bool card_up;
    poet_pager pager;
    poet_record record;   /* of a model with kept tensors */
    bool record_known;    /* since the card came up */
    int record_status;    /* POET_OK, or why no record of the card counts */
    bool preparing;       /* without a record yet: tensors are put on the card for a first one */
    uint32_t lasting;     /* steps of the last commit that memory has elsewhere */
    bool residents_count; /* those in RAM are those that the record names, or were committed with it */
    bool residents_stale; /* they were, and are to be read back before the next step */
    bool greeted;         /* a `hello` has been received since boot */
    bool leaving;         /* for the bootloader, when the answer has been sent */
    uint16_t sequence;    /* of the last request carried out, whose answer is kept */
    poet_line line;
    char answer[POET_LINE_BYTES + 2u];
    uint32_t answer_length;
} poet_server;

/* Takes the board's RAM and checks the built model and schedule. */
void poet_server_init(poet_server *server, const poet_built *built);

/* Takes another plan, whose tables lie in the last `held_bytes` of the RAM, and checks it. */
void poet_server_take(poet_server *server, const poet_built *built, uint32_t held_bytes);

void poet_server_receive(poet_server *server, char byte);

/* Carries out one request: writes ` key=value` pairs, or words after an error, and returns a poet_status. */
int poet_command_run(poet_server *server, const char *body, poet_text *answer);

#ifdef __cplusplus
}
#endif

#endif
