/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the protocol (docs/SPEC.md, section 6). Each is handed what follows its name, and answers as
 * `poet_command_run`. */
#ifndef POET_PROTOCOL_VERBS_H
#define POET_PROTOCOL_VERBS_H

#include "poet/server.h"
#include "poet/text.h"

typedef int poet_verb(poet_server *server, const char *arguments, poet_text *answer);

poet_verb poet_verb_hello, poet_verb_stack, poet_verb_format, poet_verb_bootloader; /* commands.c */
poet_verb poet_verb_bench, poet_verb_page, poet_verb_idle;                          /* benchmark_verbs.c */
poet_verb poet_verb_infer;                                                          /* inference_verbs.c */
poet_verb poet_verb_extract, poet_verb_keep, poet_verb_kept;                        /* feature_verbs.c */
poet_verb poet_verb_put, poet_verb_scaled, poet_verb_get, poet_verb_batches;        /* tensor_verbs.c */
poet_verb poet_verb_set, poet_verb_block, poet_verb_samples;                        /* sample_verbs.c */
poet_verb poet_verb_step, poet_verb_times, poet_verb_commit, poet_verb_restore;     /* training_verbs.c */

/* Of a sketch (sketch/sketch.h): `load`, and all that it answers before other verbs do; POET_MORE for what it does not.
 */
poet_verb poet_verb_load;
POET_OPTIONAL poet_verb poet_sketch_command;

/* What `hello` says, of a board and of firmware by these names. */
void poet_hello(const poet_server *server, const char *board, const char *firmware, poet_text *answer);

/* Says why a sample's features are not there. */
int poet_feature_refusal(poet_server *server, poet_text *answer, int status);

/* Opens the card if the features of this number lie there; a failure is for poet_session_fail. */
int poet_feature_card(poet_server *server, uint32_t number);

/* Begins the window of what is moved there and back: at which tick. */
uint32_t poet_feature_window(void);

#endif
