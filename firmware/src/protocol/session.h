/* SPDX-License-Identifier: Apache-2.0 */
/* What the server knows of its card and of the RAM from one request to the next: whether the card is up, which record
 * of it counts, and whether the residents in RAM are those that the record names. */
#ifndef POET_PROTOCOL_SESSION_H
#define POET_PROTOCOL_SESSION_H

#include <stdbool.h>

#include "poet/server.h"
#include "poet/text.h"

/* After an error the card is brought up afresh, so that one which was pulled out, or exchanged, can be put back. */
void poet_session_note(poet_server *server, int status);

/* Brings the card up, if it is not. */
int poet_session_card(poet_server *server);

/* Of slow memory: whether what its commits go to is there, labelled, and not of another model. */
int poet_session_lasting(const poet_server *server);

/* Opens the card for pages, unless it is another model's; they go after the tensors that a model keeps there. */
int poet_session_pager(poet_server *server);

/* Opens it likewise, and says which block is the first behind the pages, and a trace, of all plans. */
int poet_session_behind_pages(poet_server *server, uint32_t *block);

/* Whether the built model, if it can be run, keeps tensors on the card. */
bool poet_session_keeps_tensors(const poet_server *server);

/* Opens a card on which a record says what counts, or on which the tensors for a first one are being put. */
int poet_session_record(poet_server *server, bool preparing_will_do);

/* What runs next writes where the trace of the last run lies. */
void poet_session_forget_traces(poet_server *server);

/* Runs a plan beside the training step's, with the card if it needs it. */
int poet_session_run_beside(poet_server *server, poet_runner *runner, poet_run *run);

/* Ends a verb that needs a record. */
int poet_session_fail(poet_text *answer, int status);

/* The RAM was used otherwise, or a step failed that may have changed residents. */
void poet_session_lose_residents(poet_server *server);

/* Before the inference's tensors are used: where they lie among gradients, the batch begins anew. */
void poet_session_forget_sums(poet_server *server, const poet_model *inference);

/* Sees to it that the residents are those that were committed with the last step. POET_E_ORDER if only the host can. */
int poet_session_residents(poet_server *server);

#endif
