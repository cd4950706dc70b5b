/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/built.h"

#include <stddef.h>

#ifdef POET_NO_MODEL

const poet_built poet_built_in = {NULL, NULL, {NULL, NULL, NULL, NULL}};

#else

#include "poet_model.h"
#include "poet_schedule.h"

static poet_value_state values[sizeof poet_built_values / sizeof *poet_built_values];
static poet_block blocks[sizeof poet_built_values / sizeof *poet_built_values + 1u];
static uint32_t ticks[sizeof poet_built_steps / sizeof *poet_built_steps];
static uint32_t peaks[sizeof poet_built_steps / sizeof *poet_built_steps];

const poet_built poet_built_in = {&poet_built_model, &poet_built_schedule, {values, blocks, ticks, peaks}};

#endif
