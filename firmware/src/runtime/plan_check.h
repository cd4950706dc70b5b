/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a built plan, once at start: what passes can be followed without looking. */
#ifndef POET_RUNTIME_PLAN_CHECK_H
#define POET_RUNTIME_PLAN_CHECK_H

#include <stdbool.h>

#include "poet/model.h"
#include "poet/schedule.h"

/* POET_E_HASH, POET_E_CORRUPT, POET_E_UNSUPPORTED, POET_E_ORDER or POET_E_MEMORY, as poet_runner_init. */
int poet_plan_check(const poet_model *model, const poet_schedule *schedule, uint32_t ram_bytes);

/* Whether nothing that a call writes overlaps what else it has, but where its operator says so. For a plan that passed
 * the checks and comes from outside: in one that was built, the planner's verifier has seen to it. */
bool poet_plan_lies_apart(const poet_schedule *schedule);

#endif
